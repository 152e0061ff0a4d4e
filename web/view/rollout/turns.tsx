/** Turns of a transcript: the author of each, by name and by colour, and its content. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Content, Part } from '../../../src/viewing/view-wire.ts';
import { formatCount, formatDifference, formatReward } from '../figures/numbers.ts';
import { plainText } from '../text/marked-text.ts';
import { Label } from '../text/label.tsx';
import { LongText } from '../text/long-text.tsx';
import { ownValue } from '../text/own-value.ts';
import { Text } from '../text/text.tsx';
import { Contents } from './contents.tsx';

const FOLDED: ReadonlySet<string> = new Set(['observation', 'user', 'tool', 'system']);

/** Text of other authors than the model is long, and read only when needed. */
export function isFolded({ kind }: Part): boolean {
  return FOLDED.has(kind);
}

export function Turns({ parts, run }: { readonly parts: readonly Part[]; readonly run: string }): VNode {
  return (
    <ol class="transcript">
      {parts.map((part, i) => (
        <Turn key={i} part={part} run={run} folds={isFolded(part)} />
      ))}
    </ol>
  );
}

/** Kind → name and class. An unknown role keeps its name. */
const WRITERS: Readonly<Record<string, readonly [string, string]>> = {
  model: ['model', 'by-model'],
  assistant: ['model', 'by-model'],
  observation: ['observation', 'by-environment'],
  tool: ['tool', 'by-environment'],
  given: ['agent', 'by-environment'],
  corrective: ['correction', 'by-correction'],
  prefill: ['prefill', 'by-correction'],
  system: ['system', 'by-prompt'],
  user: ['user', 'by-prompt'],
};

interface TurnProps {
  readonly part: Part;
  readonly run: string;
  /** True if only the first lines are shown at first. */
  readonly folds?: boolean;
}

export function Turn({ part, run, folds = false }: TurnProps): VNode {
  const [name, style] = ownValue(WRITERS, part.kind) ?? [part.kind, 'by-environment'];
  const [isOpen, setOpen] = useState(false);
  const lines = linesOf(part.content);
  const isCut = folds && lines > 3 && !isOpen;
  return (
    <li class={`turn ${style}`}>
      <div class="turn-writer" title={`Written by: ${plainText(name)}`}>
        <Label text={name} />
        {part.reward !== undefined && (
          <small class="turn-figure number" title="What the environment said that this turn was worth by itself">
            reward {formatReward(part.reward)}
          </small>
        )}
        {part.advantage !== undefined && (
          <small class="turn-figure number" title="The advantage with which the tokens of this turn were trained">
            advantage {formatDifference(part.advantage)}
          </small>
        )}
      </div>
      <div class="turn-body">
        {part.reasoning !== undefined && <Thoughts text={part.reasoning} />}
        <div class={isCut ? 'folded' : ''}>
          <Contents content={part.content} run={run} tagged={style === 'by-model'} />
        </div>
        {part.tool_calls.map((call, i) => (
          <div class="tool-call" key={i}>
            <span class="tool-call-name">
              <Text text={call.name === '' ? 'a call that could not be read' : call.name} />
            </span>
            <Contents content={[{ type: 'text', text: call.arguments }]} run={run} />
          </div>
        ))}
        {folds && lines > 3 && (
          <button type="button" class="fold-button" aria-expanded={!isCut} onClick={() => setOpen(isCut)}>
            {isCut ? `Show all, ${formatCount(lines)} lines` : 'Fold'}
          </button>
        )}
      </div>
    </li>
  );
}

/** Thoughts that the server returned in a field of their own, folded: they are long, and not part of the turn's text. */
function Thoughts({ text }: { readonly text: string }): VNode {
  const lines = linesOf([{ type: 'text', text }]);
  return (
    <details class="thoughts">
      <summary title="Recorded apart from the text">
        Thoughts, {formatCount(lines)} {lines === 1 ? 'line' : 'lines'}
      </summary>
      <div class="said said-thought" dir="auto">
        <LongText text={text.trim()} />
      </div>
    </details>
  );
}

/** The approximate number of characters on a line of the transcript. */
const LINE = 90;

function linesOf(content: readonly Content[]): number {
  let lines = 0;
  for (const part of content)
    if (part.type === 'image') lines += 8;
    else for (const line of part.text.trim().split('\n')) lines += Math.max(1, Math.ceil(line.length / LINE));
  return lines;
}
