/** Notable events of a training run: resumes, alarms, lost servers. */
import type { VNode } from 'preact';
import type { TrainingDetail } from '../../../src/viewing/view-wire.ts';
import { EmptyState } from '../frame/states.tsx';
import { formatTime } from '../figures/numbers.ts';
import { LongText } from '../text/long-text.tsx';
import { Text } from '../text/text.tsx';

export function EventsTab({ detail }: { readonly detail: TrainingDetail }): VNode {
  if (detail.events.length === 0)
    return (
      <EmptyState title="No events">
        <p>A run notes here when it starts, resumes, raises an alarm or loses a server.</p>
      </EmptyState>
    );
  return (
    <ol class="events" reversed>
      {detail.events.toReversed().map(({ kind, step, time, message }, i) => (
        <li key={detail.events.length - i} class={/alarm|lost|failed|stopped/.test(kind) ? 'loud' : ''}>
          <span class="events-step">step {step}</span>
          <time dateTime={time}>{formatTime(time)}</time>
          <strong>
            <Text text={kind.replaceAll('_', ' ')} />
          </strong>
          <span class="events-message">
            <LongText text={message} />
          </span>
        </li>
      ))}
    </ol>
  );
}
