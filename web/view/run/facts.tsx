/** Names and values, such as the settings of a run. */
import type { VNode } from 'preact';
import { LongText } from '../text/long-text.tsx';
import { Text } from '../text/text.tsx';

export interface Fact {
  readonly name: string;
  readonly value: string;
}

export function Facts({ facts }: { readonly facts: readonly Fact[] }): VNode {
  return (
    <dl class="facts">
      {facts.map(({ name, value }, i) => (
        <div key={i}>
          <dt>
            <Text text={name} />
          </dt>
          <dd>
            <LongText text={value} />
          </dd>
        </div>
      ))}
    </dl>
  );
}
