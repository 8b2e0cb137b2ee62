/** Asked before something that is not easily taken back. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Props {
  title: string;
  yes: string;
  onYes(): void;
  onNo(): void;
  children: ComponentChildren;
}

export function Confirm({ title, yes, onYes, onNo, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="dialog" aria-label={title} onClose={onNo}>
      <h2>{title}</h2>
      {children}
      <div class="row">
        <button type="button" class="button primary" onClick={onYes}>
          {yes}
        </button>
        <button type="button" class="button" onClick={() => dialog.current?.close()}>
          Cancel
        </button>
      </div>
    </dialog>
  );
}
