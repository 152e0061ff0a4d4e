/** A name that explains itself where one points at it or tabs to it. */
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
