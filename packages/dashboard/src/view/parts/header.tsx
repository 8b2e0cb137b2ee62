import type { ComponentChildren } from "preact";
import { connection } from "../../data/live.ts";
import { nextTheme, theme } from "../../data/theme.ts";
import { link } from "../../data/url.ts";
import { keysShown } from "./key-list.tsx";
import type { Crumb } from "./page.tsx";
import { Text } from "./text.tsx";

export function Header({ crumbs, actions }: { crumbs: readonly Crumb[]; actions: ComponentChildren }) {
  const all: Crumb[] = [crumbs.length === 0 ? { text: "Runs" } : { text: "Runs", href: link(["runs"]) }, ...crumbs];
  return (
    <header class="header">
      <button type="button" class="skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to the content
      </button>
      <nav class="crumbs" aria-label="Where you are">
        <ol>
          {all.map(({ text, href }, i) => (
            <li key={i}>
              {href === undefined ? (
                <span aria-current="page">
                  <Text value={text} />
                </span>
              ) : (
                <a href={href}>
                  <Text value={text} />
                </a>
              )}
            </li>
          ))}
        </ol>
      </nav>
      <div class="header-actions">
        {actions}
        <Connection />
        <button
          type="button"
          class="button quiet"
          onClick={nextTheme}
          title="Light, dark, or as the system has it"
          aria-label={`Colours: ${theme.value}`}
        >
          {theme.value === "light" ? "☀" : theme.value === "dark" ? "☾" : "◐"}
        </button>
        <button
          type="button"
          class="button quiet"
          onClick={() => {
            keysShown.value = true;
          }}
          aria-label="Keys"
          title="Keys (?)"
        >
          ?
        </button>
      </div>
    </header>
  );
}

const words = {
  connecting: "connecting",
  connected: "connected",
  waiting: "server does not answer, trying again",
} as const;

function Connection() {
  const state = connection.value;
  return (
    <span class={`connection connection-${state}`} role="status">
      <span class="dot" aria-hidden="true" />
      {words[state]}
    </span>
  );
}
