/** A name of a file: of a metric, an end, a writer. A long one is cut, so that it stays a name; the pointer or the focus shows the rest. */
import type { VNode } from 'preact';
import { plainText } from './marked-text.ts';
import { Text } from './text.tsx';

const MOST_CHARACTERS = 80;
const MOST_IN_TITLE = 1000;

export function Label({ text }: { readonly text: string }): VNode {
  if (text.length <= MOST_CHARACTERS) return <Text text={text} />;
  return (
    <span title={plainText(text.slice(0, MOST_IN_TITLE))}>
      <Text text={`${text.slice(0, MOST_CHARACTERS)}\u2026`} />
    </span>
  );
}
