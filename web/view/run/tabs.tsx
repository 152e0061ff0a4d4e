/** Tabs of a run. Each is a link, so it can be opened in another tab of the browser; the arrows move between them, as the accessibility pattern for tabs requires. */
import type { VNode } from 'preact';
import { useRef } from 'preact/hooks';
import { useKeys } from '../keys/keys.tsx';
import type { Screen } from '../route/route.ts';
import { formatRoute } from '../route/route.ts';
import { go } from '../route/use-route.ts';

export interface Tab {
  readonly screen: Screen;
  readonly title: string;
}

export interface TabsProps {
  readonly tabs: readonly Tab[];
  readonly current: Screen;
  readonly run: string;
}

/** A click on a tab gives the focus back, so that the arrows move in its content. A user of the keyboard keeps the focus. */
function letGo({ detail, target }: MouseEvent): void {
  if (detail > 0 && target instanceof HTMLElement) target.blur();
}

export function Tabs({ tabs, current, run }: TabsProps): VNode {
  const list = useRef<HTMLDivElement>(null);
  useKeys(tabs.map(({ screen, title }, i) => ({ keys: [String(i + 1)], does: title, run: () => go(formatRoute(screen, { run })) })));
  const move = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined) return;
    const at = tabs.findIndex(({ screen }) => screen === current);
    const next = tabs[(at + by + tabs.length) % tabs.length]!;
    event.preventDefault();
    list.current?.querySelector<HTMLElement>(`#tab-${next.screen}`)?.focus();
    go(formatRoute(next.screen, { run }));
  };
  return (
    <div ref={list} role="tablist" aria-label="Parts of the run" class="tabs" onKeyDown={move}>
      {tabs.map(({ screen, title }) => (
        <a
          key={screen}
          id={`tab-${screen}`}
          role="tab"
          aria-selected={screen === current}
          tabIndex={screen === current ? 0 : -1}
          href={formatRoute(screen, { run })}
          onClick={letGo}
        >
          {title}
        </a>
      ))}
    </div>
  );
}
