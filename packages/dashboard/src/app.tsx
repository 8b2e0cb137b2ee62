/** Which view a place shows, and what is around all of them. */
import type { ComponentType } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { askEarly, type Query, signedOut } from "./data/ask.ts";
import { useKeys } from "./data/keys.ts";
import type { Place } from "./data/place.ts";
import { go, link, place } from "./data/url.ts";
import { compareAsks } from "./view/compare/asks.ts";
import { Boundary } from "./view/parts/boundary.tsx";
import { KeyList, keysShown } from "./view/parts/key-list.tsx";
import { Loading } from "./view/parts/loading.tsx";
import { Page } from "./view/parts/page.tsx";
import { SignIn } from "./view/parts/sign-in.tsx";

/** `#/<name>/…` → the view, loaded when it is first gone to; each reads the rest of the place itself. */
const views: Readonly<Record<string, () => Promise<ComponentType>>> = {
  runs: async () => (await import("./view/runs/index.tsx")).RunsView,
  run: async () => (await import("./view/run/index.tsx")).RunView,
  group: async () => (await import("./view/group/index.tsx")).GroupView,
  trajectory: async () => (await import("./view/trajectory/index.tsx")).TrajectoryView,
  compare: async () => (await import("./view/compare/index.tsx")).CompareView,
  evaluation: async () => (await import("./view/evaluation/index.tsx")).EvaluationView,
  live: async () => (await import("./view/live/index.tsx")).LiveView,
};

/** What views ask for first, where that is known before they are there. */
const firstAsks: Readonly<Record<string, (at: Place) => { path: string; query: Query }[]>> = { compare: compareAsks };

/** The view of the place and what it asks for are on their way before anything is drawn. */
export function begin(): void {
  const at = place.peek();
  const name = at.path[0] ?? "runs";
  if (!Object.hasOwn(views, name)) return;
  // Where it cannot be loaded, the view says so.
  views[name]!().catch(() => {});
  if (Object.hasOwn(firstAsks, name)) for (const { path, query } of firstAsks[name]!(at)) askEarly(path, query);
}

export function App() {
  const { path } = place.value;
  const name = path[0] ?? "runs";
  useLayoutEffect(() => scrollTo(0, 0), [path.join("/")]);
  useKeys([
    {
      key: "?",
      does: "This list",
      run: () => {
        keysShown.value = true;
      },
    },
    { key: "h", does: "All runs", run: () => go(["runs"]) },
  ]);
  return (
    <>
      <Boundary what="This page" at={path.join("/")} framed>
        {signedOut.value ? <SignIn /> : <View name={name} />}
      </Boundary>
      <KeyList />
    </>
  );
}

function View({ name }: { name: string }) {
  const [loaded, setLoaded] = useState<{ name: string; View?: ComponentType; error?: unknown }>({ name });
  useEffect(() => {
    const load = Object.hasOwn(views, name) ? views[name] : undefined;
    // Whoever went elsewhere meanwhile is not brought back by a view that comes late.
    let here = true;
    load?.().then(
      (Found) => here && setLoaded({ name, View: Found }),
      (error: unknown) => here && setLoaded({ name, error }),
    );
    return () => {
      here = false;
    };
  }, [name]);
  if (!Object.hasOwn(views, name)) {
    return (
      <Page title="No such page" crumbs={[{ text: "no such page" }]}>
        <p>
          There is no page of this name. <a href={link(["runs"])}>All runs</a>
        </p>
      </Page>
    );
  }
  if (loaded.name === name && loaded.error !== undefined) throw loaded.error;
  if (loaded.name !== name || !loaded.View) {
    return (
      <Page title="Loading" crumbs={[{ text: "…" }]}>
        <Loading />
      </Page>
    );
  }
  return <loaded.View />;
}
