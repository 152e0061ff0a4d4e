/** Keys of the page. A screen names its keys with their effects; `?` lists them. Keys are ignored while the user types, except Escape. */
import { createContext } from 'preact';
import { useContext, useEffect, useRef } from 'preact/hooks';

export interface Key {
  /** `KeyboardEvent.key`; several keys may do the same. */
  readonly keys: readonly string[];
  readonly does: string;
  readonly run: () => void;
  /** The key also works while an input has the focus. */
  readonly inInputs?: boolean;
}

/** The sets of keys that are on the page now, the innermost last. */
export class KeyMap {
  readonly #sets = new Set<() => readonly Key[]>();

  add(keys: () => readonly Key[]): () => void {
    this.#sets.add(keys);
    return () => void this.#sets.delete(keys);
  }

  /** Each key once; the innermost screen wins. */
  list(): Key[] {
    const taken = new Set<string>();
    const found: Key[] = [];
    for (const set of [...this.#sets].toReversed())
      for (const key of set()) {
        if (key.keys.some((name) => taken.has(name))) continue;
        for (const name of key.keys) taken.add(name);
        found.push(key);
      }
    return found;
  }

  handle(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]') !== null) return;
    const isTyping = isTypedInto(event.target);
    const key = this.list().find(({ keys, inInputs }) => keys.includes(event.key) && (!isTyping || inInputs === true));
    if (key === undefined) return;
    // Enter on a link or button, and arrows in a slider, keep their own effect.
    if (isOwnKey(event)) return;
    event.preventDefault();
    key.run();
  }
}

export const KeyContext = createContext(new KeyMap());

export function useKeys(keys: readonly Key[]): void {
  const map = useContext(KeyContext);
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => map.add(() => latest.current), [map]);
}

function isTypedInto(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !['checkbox', 'radio', 'range', 'button'].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
}

function isOwnKey({ key, target }: KeyboardEvent): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (key === 'Enter' || key === ' ') return target.closest('a, button, summary, input, select') !== null;
  return key.startsWith('Arrow') && target instanceof HTMLInputElement && ['range', 'radio'].includes(target.type);
}
