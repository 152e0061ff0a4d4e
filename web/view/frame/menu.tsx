/** A panel that opens below its button, and closes by a click elsewhere or Escape. */
import type { ComponentChildren, VNode } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

export interface MenuProps {
  readonly title: string;
  readonly wide?: boolean;
  readonly children: ComponentChildren;
}

export function Menu({ title, wide = false, children }: MenuProps): VNode {
  const menu = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const close = (event: Event) => {
      const element = menu.current;
      if (element !== null && element.open && !(event.target instanceof Node && element.contains(event.target))) element.open = false;
    };
    addEventListener('pointerdown', close);
    return () => removeEventListener('pointerdown', close);
  }, []);
  const escape = (event: KeyboardEvent) => {
    if (event.key !== 'Escape' || menu.current?.open !== true) return;
    event.preventDefault();
    menu.current.open = false;
    menu.current.querySelector('summary')?.focus();
  };
  return (
    <details ref={menu} class="menu" onKeyDown={escape}>
      <summary class="button">{title}</summary>
      <div class={wide ? 'menu-panel wide' : 'menu-panel'}>{children}</div>
    </details>
  );
}
