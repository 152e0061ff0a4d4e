/** A name that shows its explanation when the pointer or the focus is on it. */
import type { VNode } from 'preact';
import { useId } from 'preact/hooks';
import { Label } from '../text/label.tsx';
import { Text } from '../text/text.tsx';

export function Tip({ label, tip }: { readonly label: string; readonly tip: string }): VNode {
  const id = useId();
  return (
    <span class="tip">
      <button type="button" class="tip-name" aria-describedby={id}>
        <Label text={label} />
      </button>
      <span role="tooltip" id={id} class="tip-text">
        <Text text={tip} />
      </span>
    </span>
  );
}
