/** The table of rollouts: headings that sort, rows, of which only those in view exist, a cursor for the keys. */
import type { VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { RolloutLine } from '../../../src/viewing/view-wire.ts';
import { useCursor } from '../keys/use-cursor.ts';
import { go } from '../route/use-route.ts';
import { plainText } from '../text/marked-text.ts';
import { Text } from '../text/text.tsx';
import { type Column, trackOf } from './columns.tsx';
import type { RolloutRows } from './use-rollouts.ts';
import { rowHeightOf, VirtualRows } from './virtual-rows.tsx';

export interface RolloutGridProps {
  readonly rows: RolloutRows;
  readonly columns: readonly Column[];
  readonly sort: string;
  readonly descending: boolean;
  /** The address behind a heading. */
  readonly sortHref: (sort: string) => string;
  readonly href: (line: RolloutLine, index: number) => string;
  /** Names the query, so that going back finds the scroll position again. */
  readonly place: string;
}

const kept = new Map<string, { readonly top: number; readonly cursor: number }>();

export function RolloutGrid({ rows, columns, sort, descending, sortHref, href, place }: RolloutGridProps): VNode {
  const frame = useRef<HTMLDivElement>(null);
  const count = rows.page?.matched ?? 0;
  const before = kept.get(place);
  const reveal = (index: number) => frame.current !== null && scrollTo(frame.current, index);
  const open = (index: number) => {
    const line = rows.row(index);
    if (line !== undefined) go(href(line, index));
  };
  const [cursor, setCursor] = useCursor({ count, row: 'rollout', page: 20, start: before?.cursor ?? -1, moved: reveal, open });
  useEffect(() => {
    const element = frame.current;
    if (element === null || !rows.isCurrent) return;
    element.scrollTop = kept.get(place)?.top ?? 0;
  }, [place, rows.isCurrent]);
  const keep = () => frame.current !== null && rows.isCurrent && kept.set(place, { top: frame.current.scrollTop, cursor });
  return (
    <div
      ref={frame}
      class={`grid ${rows.isCurrent ? '' : 'stale'}`}
      role="grid"
      tabIndex={0}
      aria-label="Rollouts"
      aria-rowcount={count + 1}
      aria-colcount={columns.length}
      aria-activedescendant={cursor < 0 ? undefined : `row-${cursor}`}
      aria-busy={!rows.isCurrent}
      style={{ '--columns': columns.map(trackOf).join(' '), '--least': `${columns.reduce((sum, { width }) => sum + width, 0)}rem` }}
      onScroll={keep}
    >
      <div role="rowgroup" class="grid-head">
        <div role="row" aria-rowindex={1} class="grid-row">
          {columns.map((column) => (
            <Heading
              key={column.title}
              column={column}
              order={column.sort !== sort ? 'none' : descending ? 'descending' : 'ascending'}
              href={sortHref}
            />
          ))}
        </div>
      </div>
      <VirtualRows
        count={count}
        frame={frame}
        show={rows.show}
        draw={(index) => (
          <Row key={index} index={index} line={rows.row(index)} columns={columns} isAt={index === cursor} href={href} take={setCursor} keep={keep} />
        )}
      />
    </div>
  );
}

function Heading({
  column,
  order,
  href,
}: {
  readonly column: Column;
  readonly order: 'none' | 'ascending' | 'descending';
  readonly href: (sort: string) => string;
}): VNode {
  const name = <Text text={column.title} />;
  return (
    <div role="columnheader" class={column.isNumber ? 'cell number' : 'cell'} aria-sort={order}>
      {column.sort === null ? (
        name
      ) : (
        <a href={href(column.sort)} title={`Sort by ${plainText(column.title)}`}>
          {name}
          <span aria-hidden="true" class="sort-mark">
            {order === 'none' ? '' : order === 'descending' ? '\u2193' : '\u2191'}
          </span>
        </a>
      )}
    </div>
  );
}

interface RowProps {
  readonly index: number;
  readonly line: RolloutLine | undefined;
  readonly columns: readonly Column[];
  readonly isAt: boolean;
  readonly href: (line: RolloutLine, index: number) => string;
  readonly take: (index: number) => void;
  readonly keep: () => void;
}

function Row({ index, line, columns, isAt, href, take, keep }: RowProps): VNode {
  const open = (event: MouseEvent) => {
    if (line === undefined || event.defaultPrevented || (event.target as Element).closest('a') !== null) return;
    if (getSelection()?.isCollapsed === false) return;
    take(index);
    keep();
    go(href(line, index));
  };
  return (
    <div
      role="row"
      id={`row-${index}`}
      aria-rowindex={index + 2}
      aria-selected={isAt}
      class={`grid-row ${isAt ? 'at' : ''} ${(line?.error ?? null) === null ? '' : 'failed'}`}
      onClick={open}
    >
      {line === undefined ? (
        <div role="gridcell" class="cell waiting" aria-colspan={columns.length} />
      ) : (
        columns.map((column, i) => (
          <div role="gridcell" key={column.title} data-title={plainText(column.title)} class={column.isNumber ? 'cell number' : 'cell'}>
            {i === 0 ? (
              <a href={href(line, index)} tabIndex={-1}>
                {column.cell(line)}
              </a>
            ) : (
              column.cell(line)
            )}
          </div>
        ))
      )}
    </div>
  );
}

/** Keeps the row in view, below the headings. */
function scrollTo(frame: HTMLElement, index: number): void {
  const height = rowHeightOf(frame);
  const head = frame.querySelector<HTMLElement>('.grid-head')?.offsetHeight ?? 0;
  const top = index * height;
  if (top < frame.scrollTop) frame.scrollTop = top;
  else if (top + height > frame.scrollTop + frame.clientHeight - head) frame.scrollTop = top + height - frame.clientHeight + head;
}
