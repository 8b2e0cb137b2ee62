/** A trajectory: what was said, and each token as it was sampled and learnt from. */
import { useEffect, useMemo } from "preact/hooks";
import type { TrajectoryData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { type ApiError, askJson } from "../../data/ask.ts";
import { useKeys } from "../../data/keys.ts";
import { type Resource, useResource } from "../../data/resource.ts";
import { go, link, place, setQuery } from "../../data/url.ts";
import { selection as newSelection, type Selection } from "../../token/selection.ts";
import { TokenLegend } from "../../token/token-legend.tsx";
import { TokenPanel } from "../../token/token-panel.tsx";
import type { Tokens } from "../../token/tokens.ts";
import { Loading } from "../parts/loading.tsx";
import { Near } from "../parts/near.tsx";
import { type Crumb, Page } from "../parts/page.tsx";
import { Problem } from "../parts/problem.tsx";
import { RunGone, useGone } from "../parts/run-gone.tsx";
import { Text } from "../parts/text.tsx";
import { Chains, Messages } from "./conversation.tsx";
import { Facts } from "./facts.tsx";
import { type Look, loadTokens, nextColour, useLook } from "./look.ts";
import { panelId } from "./message.tsx";
import { leftOutWords } from "./record.ts";
import { Toolbar } from "./toolbar.tsx";
import "./trajectory.css";
import { useWrittenAgain } from "./use-written-again.ts";

export function TrajectoryView() {
  const key = place.value.path[1] ?? "";
  const { data, error, reload } = useResource(`trajectory ${key}`, (signal) =>
    askJson<TrajectoryData>(`trajectories/${encodeURIComponent(key)}`, {}, signal),
  );
  const tokens = useResource(`tokens ${key}`, (signal) => loadTokens(key, signal));
  // The last recorded step is the last until there is another one.
  useWrittenAgain(key, reload, data?.steps.next === null);
  if (!data) {
    return (
      <Page title="Trajectory" crumbs={[{ text: "trajectory" }]}>
        {error ? <Problem error={error} retry={reload} /> : <Loading what="Reading the conversation" />}
      </Page>
    );
  }
  return <Trajectory key={key} data={data} error={error} tokens={tokens} />;
}

interface Props {
  data: TrajectoryData;
  /** Of asking for it again. */
  error: ApiError | undefined;
  tokens: Resource<Tokens>;
}

function Trajectory({ data, error, tokens }: Props) {
  useWrittenAgain(data.key, tokens.reload);
  const look = useLook(tokens.data, data.group);
  const gone = useGone(data.key);
  const selection = useSelection();
  useTrajectoryKeys(data, look);
  // Not drawn again when only the address changes, as at every token that is gone to.
  const said = useMemo(
    () =>
      look?.all ? (
        <Chains look={look} selection={selection} />
      ) : (
        <Messages data={data} look={look} selection={selection} />
      ),
    [data, look, selection],
  );
  return (
    <Page
      title={`${data.scenario ?? data.id}, step ${data.step}`}
      crumbs={crumbsOf(data)}
      actions={<Around data={data} />}
    >
      {gone && <RunGone />}
      {error && !gone && <Problem error={error} />}
      <Facts data={data} look={look} />
      <Toolbar data={data} look={look} />
      {tokens.error && <NoTokens error={tokens.error} retry={tokens.reload} />}
      {look && look.tokens.tokenizer === null && (
        <p class="notice">
          The tokenizer was not found, so tokens are shown by their ids. <Text value={look.tokens.why ?? ""} />
        </p>
      )}
      <div class={look && !look.text ? "trajectory with-panel" : "trajectory"}>
        {said}
        {look && !look.text && (
          <aside class="trajectory-panel">
            {look.colour && <TokenLegend {...look.colour} of={look.scaleOf} />}
            <TokenPanel
              id={panelId}
              tokens={look.tokens}
              spelling={look.spelling}
              selection={selection}
              colour={look.colour?.quantity.name}
              leftOut={data.leftOut && leftOutWords(data.leftOut)}
            />
          </aside>
        )}
      </div>
    </Page>
  );
}

/** The chosen token stands in the address, so that it can be sent to somebody. */
function useSelection(): Selection {
  const own = useMemo(() => {
    const token = Number(place.peek().query.token ?? Number.NaN);
    return newSelection(Number.isSafeInteger(token) && token >= 0 ? token : undefined);
  }, []);
  useEffect(() => {
    let timer = 0;
    const end = own.chosen.subscribe((token) => {
      clearTimeout(timer);
      // An address may not change at every press of a key that is held down.
      timer = window.setTimeout(() => setQuery({ token: token?.toString() }), 250);
    });
    return () => {
      clearTimeout(timer);
      end();
    };
  }, [own]);
  return own;
}

function NoTokens({ error, retry }: { error: ApiError; retry: () => void }) {
  if (error.status !== 409) return <Problem error={error} retry={retry} />;
  return (
    <p class="notice">
      <Text value={error.message} />
    </p>
  );
}

const isEvaluation = (key: string) => /:e\d+:[^:]*$/.test(key);

function crumbsOf({ key, run, step, group, groupId, id }: TrajectoryData): Crumb[] {
  return [
    { text: run, href: link(["run", run]) },
    isEvaluation(key)
      ? { text: `evaluation after step ${step}`, href: link(["evaluation", run]) }
      : { text: `step ${step}`, href: link(["run", run, "step", String(step)]) },
    ...(group === null ? [] : [{ text: groupId ?? "group", href: link(["group", group]) }]),
    { text: id },
  ];
}

/** How tokens are shown stays as it is on the way to another trajectory; the token that is looked at does not. */
function kept(): Record<string, string | undefined> {
  return { ...place.peek().query, token: undefined };
}

function Around({ data: { previous, next, group } }: { data: TrajectoryData }) {
  const query = kept();
  const at = (to: string | null) => (to === null ? null : link(["trajectory", to], query));
  return (
    <nav class="row around" aria-label="Around it">
      <Near href={at(previous)} name="‹ Previous" title="The conversation before it in its step (k)" />
      <Near href={at(next)} name="Next ›" title="The conversation after it in its step (j)" />
      {group !== null && (
        <a class="button small" href={link(["group", group])} title="All replies to its scenario (g)">
          Group
        </a>
      )}
    </nav>
  );
}

function useTrajectoryKeys({ previous, next, group, steps }: TrajectoryData, look: Look | undefined): void {
  const to = (key: string | null) => () => {
    if (key !== null) go(["trajectory", key], kept());
  };
  useKeys([
    { key: "j", does: "The next trajectory of the step", run: to(next) },
    { key: "k", does: "The one before it", run: to(previous) },
    { key: "]", does: "The next recorded step", run: to(steps.next) },
    { key: "[", does: "The recorded step before", run: to(steps.previous) },
    { key: "g", does: "Its group", run: () => group !== null && go(["group", group]) },
    { key: "t", does: "Another colour for tokens", run: () => look && nextColour(look) },
    {
      key: "b",
      does: "Boundaries of tokens",
      run: () => look && setQuery({ boundaries: look.boundaries ? undefined : "1" }),
    },
    { key: "a", does: "All tokens, prompts too", run: () => look && setQuery({ all: look.all ? undefined : "1" }) },
  ]);
}
