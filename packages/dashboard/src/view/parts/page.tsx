/** The frame of every view: where one is, what can be done, and the view itself. */
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { Header } from "./header.tsx";
import { plain } from "./visible.ts";

export interface Crumb {
  text: string;
  /** Left out: here. */
  href?: string;
}

export interface PageProps {
  /** Of the browser's tab, and the heading for whoever does not see the page. */
  title: string;
  /** After "Runs", which is always the first. */
  crumbs?: readonly Crumb[];
  /** Buttons and links at the right of the crumbs. */
  actions?: ComponentChildren;
  children: ComponentChildren;
}

/** Somebody went from one place to another. */
let moved = false;
addEventListener("hashchange", () => {
  moved = true;
});

export function Page({ title, crumbs = [], actions, children }: PageProps) {
  const said = plain(title);
  useEffect(() => {
    document.title = `${said} · StateSet Agents`;
  }, [said]);
  // Where a link led here and is gone with its view, the keyboard goes on from the content.
  useEffect(() => {
    if (moved && document.activeElement === document.body) {
      document.getElementById("main")?.focus({ preventScroll: true });
    }
  }, []);
  return (
    <div class="page">
      <Header crumbs={crumbs} actions={actions} />
      <main id="main" tabIndex={-1}>
        <h1 class="unseen">{said}</h1>
        {children}
      </main>
    </div>
  );
}
