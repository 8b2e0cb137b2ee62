/** Shown where the server asks who this is. */
import { useState } from "preact/hooks";
import { ApiError, send, signedOut } from "../../data/ask.ts";
import { Page } from "./page.tsx";
import { Text } from "./text.tsx";

export function SignIn() {
  return (
    <Page title="Not signed in" crumbs={[{ text: "not signed in" }]}>
      <section class="card narrow">{signedOut.value === "link" ? <ByLink /> : <ByKey />}</section>
    </Page>
  );
}

function ByLink() {
  return (
    <>
      <h2>This page needs the link from the terminal</h2>
      <p>
        <code>stateset-agents dashboard</code> printed an address when it started. It lets one browser in, once; start
        it again for another.
      </p>
      <button type="button" class="button" onClick={again}>
        Try again
      </button>
    </>
  );
}

function again(): void {
  signedOut.value = undefined;
}

function ByKey() {
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const enter = async (event: SubmitEvent) => {
    event.preventDefault();
    const key = String(new FormData(event.target as HTMLFormElement).get("key")).trim();
    // What stands in a header.
    if (!/^[!-~]+$/.test(key)) return setError("A key has no such characters.");
    setBusy(true);
    try {
      await send("session", {}, { authorization: `Bearer ${key}` });
      again();
    } catch (problem) {
      setError(problem instanceof ApiError ? problem.message : String(problem));
      setBusy(false);
    }
  };
  return (
    <>
      <h2>This page needs a key</h2>
      <p>
        The server has keys. One that may read shows everything here; the browser is given a cookie for it and does not
        keep it. <code>stateset-agents keys create</code> makes one.
      </p>
      <form class="row" onSubmit={enter}>
        <label class="unseen" for="key">
          API key
        </label>
        <input
          id="key"
          name="key"
          type="password"
          class="input grow"
          placeholder="API key"
          autocomplete="off"
          required
        />
        <button type="submit" class="button primary" disabled={busy}>
          Sign in
        </button>
      </form>
      {error && (
        <p class="wrong" role="alert">
          <Text value={error} />
        </p>
      )}
    </>
  );
}
