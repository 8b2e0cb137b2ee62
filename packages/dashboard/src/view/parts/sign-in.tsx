/** Shown where the server asks who this is. */
import { useState } from "preact/hooks";
import { ApiError, send, signedOut } from "../../data/ask.ts";
import { Page } from "./page.tsx";
import { Text } from "./text.tsx";

export function SignIn() {
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
      signedOut.value = false;
    } catch (problem) {
      setError(problem instanceof ApiError ? problem.message : String(problem));
      setBusy(false);
    }
  };
  return (
    <Page title="Not signed in" crumbs={[{ text: "not signed in" }]}>
      <section class="card narrow">
        <h2>This page needs the link from the terminal</h2>
        <p>
          <code>stateset-agents dashboard</code> printed an address that works once. After the server was started again,
          it has printed a new one. With <code>serve</code>, a key that may read does too:
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
      </section>
    </Page>
  );
}
