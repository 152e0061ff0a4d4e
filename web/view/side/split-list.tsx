/** A list on the left, and the chosen item on the right. The keys j and k choose. */
import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { useKeys } from '../keys/keys.tsx';

export interface SplitListProps<T> {
  readonly label: string;
  /** The name of an item, for the list of keys. */
  readonly row: string;
  readonly items: readonly T[];
  readonly keyOf: (item: T) => string;
  readonly chosen: string | undefined;
  readonly choose: (item: T) => void;
  /** The content above the list. */
  readonly head: ComponentChildren;
  /** The content below the list, such as a button for more. */
  readonly foot?: ComponentChildren;
  readonly draw: (item: T) => ComponentChildren;
  readonly children: ComponentChildren;
}

export function SplitList<T>({ label, row, items, keyOf, chosen, choose, head, foot, draw, children }: SplitListProps<T>): VNode {
  const list = useRef<HTMLUListElement>(null);
  const at = items.findIndex((item) => keyOf(item) === chosen);
  const move = (index: number) => {
    const item = items[Math.min(items.length - 1, Math.max(0, index))];
    if (item !== undefined) choose(item);
  };
  useKeys([
    { keys: ['j', 'ArrowDown'], does: `Next ${row}`, run: () => move(at + 1) },
    { keys: ['k', 'ArrowUp'], does: `Previous ${row}`, run: () => move(at - 1) },
    { keys: ['Home'], does: `First ${row}`, run: () => move(0) },
    { keys: ['End'], does: `Last ${row}`, run: () => move(items.length - 1) },
    { keys: ['/'], does: 'Filter the list', run: () => list.current?.closest('.split')?.querySelector<HTMLElement>('input')?.focus() },
  ]);
  useEffect(() => {
    const element = list.current?.children[at];
    if (element instanceof HTMLElement && list.current !== null) keepInView(list.current, element);
  }, [at]);
  return (
    <div class="split">
      <div class="split-side">
        <div class="split-head">{head}</div>
        <ul ref={list} class="split-list" aria-label={label}>
          {items.map((item) => (
            <li key={keyOf(item)}>
              <button type="button" class="split-item" aria-pressed={keyOf(item) === chosen} onClick={() => choose(item)}>
                {draw(item)}
              </button>
            </li>
          ))}
          {items.length === 0 && <li class="quiet-text split-none">Nothing matches. Empty the filter.</li>}
          {foot !== undefined && <li class="split-foot">{foot}</li>}
        </ul>
      </div>
      <div class="split-main">{children}</div>
    </div>
  );
}

/** Scrolls only the list: scrollIntoView would move the page, too. */
function keepInView(list: HTMLElement, item: HTMLElement): void {
  const [top, bottom] = [item.offsetTop - list.offsetTop, item.offsetTop - list.offsetTop + item.offsetHeight];
  if (top < list.scrollTop) list.scrollTop = top;
  else if (bottom > list.scrollTop + list.clientHeight) list.scrollTop = bottom - list.clientHeight;
}
