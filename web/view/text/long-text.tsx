/** Text of any length. The rest of a long text is behind a button, in blocks that the browser lays out when they come into view. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { formatCount } from '../figures/numbers.ts';
import { blocksOf } from './text-blocks.ts';
import { Text } from './text.tsx';
import { TaggedText } from './tagged-text.tsx';

/** Characters shown at once: more than any turn of a usual rollout. */
const MOST_CHARACTERS = 20_000;

export interface LongTextProps {
  readonly text: string;
  /** Distinguishes tags of the model's text from the text between them. */
  readonly tagged?: boolean;
}

export function LongText({ text, tagged = false }: LongTextProps): VNode {
  const [all, setAll] = useState(false);
  const isCut = !all && text.length > MOST_CHARACTERS;
  const Shown = tagged ? TaggedText : Text;
  if (!isCut && text.length <= MOST_CHARACTERS) return <Shown text={text} />;
  return (
    <>
      {blocksOf(isCut ? text.slice(0, MOST_CHARACTERS) : text).map((block, i) => (
        <div class="text-block" key={i}>
          <Text text={block} />
        </div>
      ))}
      {isCut && (
        <button type="button" class="fold-button" onClick={() => setAll(true)}>
          Show all {formatCount(text.length)} characters
        </button>
      )}
    </>
  );
}
