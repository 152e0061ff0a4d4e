/** The list of keys that work on this screen. */
import type { VNode } from 'preact';
import { useContext, useEffect, useRef } from 'preact/hooks';
import { KeyContext } from '../keys/keys.tsx';

const SYMBOLS: Readonly<Record<string, string>> = {
  ArrowDown: '\u2193',
  ArrowUp: '\u2191',
  ArrowLeft: '\u2190',
  ArrowRight: '\u2192',
  Escape: 'Esc',
};

export function KeyHelp({ close }: { readonly close: () => void }): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const map = useContext(KeyContext);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      class="dialog"
      aria-label="Keys"
      onClose={close}
      onClick={(event) => event.target === dialog.current && dialog.current?.close()}
    >
      <form method="dialog" class="dialog-head">
        <h2>Keys</h2>
        <button class="button" type="submit">
          Close
        </button>
      </form>
      <dl class="keys">
        {map.list().map(({ keys, does }) => (
          <div key={does}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{SYMBOLS[key] ?? key}</kbd>
              ))}
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </dialog>
  );
}
