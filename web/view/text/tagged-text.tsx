/** Text of a model with faint tags, fainter thoughts, and highlighted searches and answers. */
import type { VNode } from 'preact';
import { ownValue } from './own-value.ts';
import { spansOf } from './tagged-spans.ts';
import { Text } from './text.tsx';

const CLASSES: Readonly<Record<string, string>> = {
  think: 'said-thought',
  thinking: 'said-thought',
  reasoning: 'said-thought',
  search: 'said-query',
  query: 'said-query',
  tool_call: 'said-query',
  bbox: 'said-query',
  answer: 'said-answer',
};

export function TaggedText({ text }: { readonly text: string }): VNode {
  return (
    <>
      {spansOf(text).map(({ text: part, within, isTag }) => {
        const name = isTag ? 'said-tag' : ownValue(CLASSES, within);
        return name === undefined ? (
          <Text text={part} />
        ) : (
          <span class={name}>
            <Text text={part} />
          </span>
        );
      })}
    </>
  );
}
