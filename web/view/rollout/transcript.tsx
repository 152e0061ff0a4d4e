/** A rollout from its prompt to its last turn, with the author of each part. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import type { Asked, RolloutBranch, RolloutDetail } from '../../../src/viewing/view-wire.ts';
import { formatCount, formatNumber } from '../figures/numbers.ts';
import { Text } from '../text/text.tsx';
import { promptPart, sharedMessages } from './branches.tsx';
import { isFolded, Turn } from './turns.tsx';

interface TranscriptProps {
  readonly detail: RolloutDetail;
  /** @default 0, which is the whole of a rollout of one */
  readonly branch?: number;
  readonly run: string;
}

export function Transcript({ detail, branch = 0, run }: TranscriptProps): VNode {
  const { prompt, parts } = detail.branches[branch] ?? detail;
  return (
    <>
      <ol class="transcript">
        <SharedBeginning branches={detail.branches} branch={branch} run={run} />
        {prompt.map((message, i) => (
          <Turn key={`prompt-${i}`} part={promptPart(message)} run={run} folds />
        ))}
        {parts.map((part, i) => (
          <Turn key={i} part={part} run={run} folds={isFolded(part)} />
        ))}
      </ol>
      {detail.asked.length > 0 && <AskedCalls asked={detail.asked} run={run} />}
    </>
  );
}

interface SharedProps {
  readonly branches: readonly RolloutBranch[];
  readonly branch: number;
  readonly run: string;
}

/** The beginning of a branch that another has too, folded. */
function SharedBeginning({ branches, branch, run }: SharedProps): VNode | null {
  const [isOpen, setOpen] = useState(false);
  const begins = branches[branch]?.begins_with ?? null;
  if (begins === null) return null;
  const shared = isOpen ? sharedMessages(branches, branches[branch]!) : [];
  return (
    <>
      <li class="turn by-prompt shared-beginning">
        <div class="turn-writer">as branch {begins.branch}</div>
        <div class="turn-body">
          <button type="button" class="fold-button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? 'Fold' : 'Show'} the first {begins.messages === 1 ? 'message' : `${formatCount(begins.messages)} messages`}
          </button>
        </div>
      </li>
      {shared.map((part, i) => (
        <Turn key={`shared-${i}`} part={part} run={run} folds />
      ))}
    </>
  );
}

function AskedCalls({ asked, run }: { readonly asked: readonly Asked[]; readonly run: string }): VNode {
  return (
    <section class="asked">
      <h2>Calls of other models</h2>
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
            <Turn
              part={{
                kind: 'assistant',
                content: [{ type: 'text', text: call.text }],
                tool_calls: [],
                ...(call.reasoning === undefined ? {} : { reasoning: call.reasoning }),
              }}
              run={run}
            />
          </ol>
        </details>
      ))}
    </section>
  );
}
