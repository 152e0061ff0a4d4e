/** Draws only the rows of a long table that are in view. All rows have one height, which the style gives (`--row-height`). */
import type { ComponentChildren, RefObject, VNode } from 'preact';
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';

export interface VirtualRowsProps {
  readonly count: number;
  /** The element that scrolls. */
  readonly frame: RefObject<HTMLElement | null>;
  readonly draw: (index: number) => ComponentChildren;
  readonly show: (first: number, last: number) => void;
}

/** Rows drawn beyond each edge, so that a quick scroll shows no gap. */
const BEYOND = 12;

export function VirtualRows({ count, frame, draw, show }: VirtualRowsProps): VNode {
  const { top, height, rowHeight } = useView(frame);
  const first = Math.max(0, Math.min(count - 1, Math.floor(top / rowHeight) - BEYOND));
  const last = Math.min(count - 1, Math.ceil((top + height) / rowHeight) + BEYOND);
  useEffect(() => show(Math.max(0, first), Math.max(0, last)), [first, last, show]);
  const rows: ComponentChildren[] = [];
  for (let index = first; index <= last; index++) rows.push(draw(index));
  return (
    <div class="rows" role="rowgroup" style={{ height: `${count * rowHeight}px` }}>
      <div class="rows-shown" role="presentation" style={{ transform: `translateY(${Math.max(0, first) * rowHeight}px)` }}>
        {rows}
      </div>
    </div>
  );
}

interface View {
  readonly top: number;
  readonly height: number;
  readonly rowHeight: number;
}

function useView(frame: RefObject<HTMLElement | null>): View {
  const [view, setView] = useState<View>({ top: 0, height: 600, rowHeight: 30 });
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return;
    let wanted = 0;
    const read = () => {
      wanted = 0;
      const next = { top: element.scrollTop, height: element.clientHeight, rowHeight: rowHeightOf(element) };
      setView((before) => (before.top === next.top && before.height === next.height && before.rowHeight === next.rowHeight ? before : next));
    };
    const later = () => void (wanted ||= requestAnimationFrame(read));
    read();
    element.addEventListener('scroll', later, { passive: true });
    const resized = new ResizeObserver(later);
    resized.observe(element);
    return () => {
      element.removeEventListener('scroll', later);
      resized.disconnect();
      cancelAnimationFrame(wanted);
    };
  }, [frame]);
  return view;
}

export function rowHeightOf(frame: HTMLElement): number {
  return Number.parseFloat(getComputedStyle(frame).getPropertyValue('--row-height')) || 30;
}
