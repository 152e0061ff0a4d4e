/** Chooses the metrics that the table shows. */
import type { VNode } from 'preact';
import { Menu } from '../frame/menu.tsx';
import { Label } from '../text/label.tsx';

export interface ColumnMenuProps {
  readonly metrics: readonly string[];
  readonly shown: readonly string[];
  readonly choose: (columns: string[]) => void;
}

export function ColumnMenu({ metrics, shown, choose }: ColumnMenuProps): VNode | null {
  if (metrics.length === 0) return null;
  const flip = (name: string) => choose(metrics.filter((one) => (one === name) !== shown.includes(one)));
  return (
    <Menu title="Columns">
      {metrics.map((name) => (
        <label key={name} class="menu-item">
          <input type="checkbox" checked={shown.includes(name)} onChange={() => flip(name)} />
          <span>
            <Label text={name} />
          </span>
        </label>
      ))}
    </Menu>
  );
}
