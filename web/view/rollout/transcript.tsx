/** A rollout from its prompt to its last turn, with the author of each part. */
import type { VNode } from 'preact';
import type { Asked, RolloutDetail } from '../../../src/viewing/view-wire.ts';
import { formatCount, formatNumber } from '../figures/numbers.ts';
import { Text } from '../text/text.tsx';
import { isFolded, Turn } from './turns.tsx';

export function Transcript({ detail, run }: { readonly detail: RolloutDetail; readonly run: string }): VNode {
  return (
    <>
      <ol class="transcript">
        {detail.prompt.map(({ role, content, tool_calls: calls }, i) => (
          <Turn key={`prompt-${i}`} part={{ kind: role, content, tool_calls: calls }} run={run} folds />
        ))}
        {detail.parts.map((part, i) => (
          <Turn key={i} part={part} run={run} folds={isFolded(part)} />
        ))}
      </ol>
      {detail.asked.length > 0 && <AskedCalls asked={detail.asked} run={run} />}
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
