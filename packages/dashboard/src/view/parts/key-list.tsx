/** What ? shows: every key that does something here. */
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { chartKeys } from "../../chart/chart-keys.ts";
import { activeKeys } from "../../data/keys.ts";

export const keysShown = signal(false);

export function KeyList() {
  return keysShown.value ? <Shown /> : null;
}

function Shown() {
  const dialog = useRef<HTMLDialogElement>(null);
  // The browser keeps the focus in it, closes it by Escape, and gives the focus back.
  useEffect(() => dialog.current?.showModal(), []);
  const close = () => {
    keysShown.value = false;
  };
  const keys = activeKeys();
  return (
    <dialog ref={dialog} class="dialog" aria-labelledby="keys-title" onClose={close}>
      <h2 id="keys-title">Keys</h2>
      <dl class="keys">
        {keys.map(({ key, does }) => (
          <div key={key}>
            <dt>
              <kbd>{key === " " ? "Space" : key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      {document.querySelector(".chart-box") && (
        <>
          <h3>On a chart that has the focus</h3>
          <dl class="keys">
            {chartKeys.map(([key, does]) => (
              <div key={key}>
                <dt>
                  <kbd>{key}</kbd>
                </dt>
                <dd>{does}</dd>
              </div>
            ))}
          </dl>
        </>
      )}
      <form method="dialog">
        <button type="submit" class="button">
          Close
        </button>
      </form>
    </dialog>
  );
}
