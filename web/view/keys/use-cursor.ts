/** The row that the keys j and k move over a list, and Enter opens. */
import { useEffect, useState } from 'preact/hooks';
import { useKeys } from './keys.tsx';

export interface CursorOptions {
  readonly count: number;
  readonly open: (index: number) => void;
  /** The name of a row, for the list of keys. */
  readonly row: string;
  /** The row at first. */
  readonly start?: number;
  /** Rows that Page Up and Page Down skip. */
  readonly page?: number;
  readonly moved?: (index: number) => void;
}

/** -1 before the first key. */
export function useCursor({ count, open, row, start = -1, page = 10, moved }: CursorOptions): readonly [number, (index: number) => void] {
  const [cursor, setCursor] = useState(start);
  const move = (index: number) => {
    if (count === 0) return;
    const next = Math.min(count - 1, Math.max(0, index));
    setCursor(next);
    moved?.(next);
  };
  useEffect(() => {
    if (cursor >= count && count > 0) setCursor(count - 1);
  }, [count, cursor]);
  useKeys([
    { keys: ['j', 'ArrowDown'], does: `Next ${row}`, run: () => move(cursor + 1) },
    { keys: ['k', 'ArrowUp'], does: `Previous ${row}`, run: () => move(cursor - 1) },
    { keys: ['PageDown'], does: `Forward by ${page}`, run: () => move(cursor + page) },
    { keys: ['PageUp'], does: `Back by ${page}`, run: () => move(cursor - page) },
    { keys: ['Home'], does: `First ${row}`, run: () => move(0) },
    { keys: ['End'], does: `Last ${row}`, run: () => move(count - 1) },
    { keys: ['Enter'], does: `Open the ${row}`, run: () => cursor >= 0 && cursor < count && open(cursor) },
  ]);
  return [cursor, move];
}
