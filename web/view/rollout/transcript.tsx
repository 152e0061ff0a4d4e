/** A rollout from its prompt to its last turn, with who wrote what. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Asked, Content, Part, RolloutDetail } from '../../../src/viewing/view-wire.ts';
import { formatCount, formatNumber } from '../figures/numbers.ts';
import { plainText } from '../text/marked-text.ts';
import { Text } from '../text/text.tsx';
import { Contents } from './contents.tsx';

export function Transcript({ detail, run }: { readonly detail: RolloutDetail; readonly run: string }): VNode {
  return (
    <>
      <ol class="transcript">
        {detail.prompt.map(({ role, content, tool_calls: calls }, i) => (
          <Turn key={`prompt-${i}`} part={{ kind: role, content, tool_calls: calls }} run={run} folds />
        ))}
        {detail.parts.map((part, i) => (
          <Turn key={i} part={part} run={run} folds={FOLDED.has(part.kind)} />
        ))}
      </ol>
      {detail.asked.length > 0 && <AskedCalls asked={detail.asked} run={run} />}
    </>
  );
}

const FOLDED: ReadonlySet<string> = new Set(['observation', 'user', 'tool', 'system']);

/** Kind → name and class. A role that nobody knows keeps its name. */
const WRITERS: Readonly<Record<string, readonly [string, string]>> = {
  model: ['model', 'by-model'],
  assistant: ['model', 'by-model'],
  observation: ['observation', 'by-environment'],
  tool: ['tool', 'by-environment'],
  corrective: ['correction', 'by-correction'],
  prefill: ['prefill', 'by-correction'],
  system: ['system', 'by-prompt'],
  user: ['user', 'by-prompt'],
};

interface TurnProps {
  readonly part: Part;
  readonly run: string;
  /** Whether only the first lines show at first. */
  readonly folds?: boolean;
}

function Turn({ part, run, folds = false }: TurnProps): VNode {
  const [name, style] = WRITERS[part.kind] ?? [part.kind, 'by-environment'];
  const [isOpen, setOpen] = useState(false);
  const lines = linesOf(part.content);
  const isFolded = folds && lines > 3 && !isOpen;
  return (
    <li class={`turn ${style}`}>
      <div class="turn-writer" title={`Written by: ${plainText(name)}`}>
        <Text text={name} />
      </div>
      <div class="turn-body">
        <div class={isFolded ? 'folded' : ''}>
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
          <button type="button" class="fold-button" aria-expanded={!isFolded} onClick={() => setOpen(isFolded)}>
            {isFolded ? `Show all, ${formatCount(lines)} lines` : 'Fold'}
          </button>
        )}
      </div>
    </li>
  );
}

/** Characters that fit on a line of the transcript, about. */
const LINE = 90;

function linesOf(content: readonly Content[]): number {
  let lines = 0;
  for (const part of content)
    if (part.type === 'image') lines += 8;
    else for (const line of part.text.trim().split('\n')) lines += Math.max(1, Math.ceil(line.length / LINE));
  return lines;
}

function AskedCalls({ asked, run }: { readonly asked: readonly Asked[]; readonly run: string }): VNode {
  return (
    <section class="asked">
      <h2>Asked beside the policy</h2>
      {asked.map((call, i) => (
        <details key={i}>
          <summary>
            <strong>
              <Text text={call.role} />
            </strong>{' '}
            <Text text={call.model} />
            <span class="asked-answer">
              <Text text={call.text.slice(0, 160)} />
            </span>
            <span class="quiet-text number">
              {call.attempts === 0 ? 'from the cache' : `${formatNumber(call.ms)} ms`}, {formatCount(call.input_tokens)} +{' '}
              {formatCount(call.output_tokens)} tokens
            </span>
          </summary>
          <ol class="transcript">
            {call.messages.map((message, k) => (
              <Turn key={k} part={{ kind: message.role, content: message.content, tool_calls: message.tool_calls }} run={run} />
            ))}
            <Turn part={{ kind: 'assistant', content: [{ type: 'text', text: call.text }], tool_calls: [] }} run={run} />
          </ol>
        </details>
      ))}
    </section>
  );
}
