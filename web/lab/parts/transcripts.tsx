/** The same held-out questions as the model played them before the first step and after the last evaluation. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { useKeys } from '../../view/keys/keys.tsx';
import { TaggedText } from '../../view/text/tagged-text.tsx';
import { Text } from '../../view/text/text.tsx';
import type { Transcript } from '../lab-messages.ts';
import type { Evaluated } from '../run/lab-state.ts';

export function Transcripts({ evaluations }: { readonly evaluations: readonly Evaluated[] }): VNode | null {
  const [chosen, choose] = useState(0);
  const before = evaluations[0];
  const latest = evaluations.length > 1 ? evaluations.at(-1)! : null;
  const questions = before?.transcripts ?? [];
  const last = questions.length - 1;
  useKeys([
    { keys: ['j', 'ArrowDown'], does: 'The next question', run: () => choose((now) => Math.min(last, now + 1)) },
    { keys: ['k', 'ArrowUp'], does: 'The question before', run: () => choose((now) => Math.max(0, now - 1)) },
  ]);
  if (before === undefined) return null;
  const place = Math.min(chosen, last);
  const asked = questions[place]!;
  const now = latest?.transcripts.find(({ id }) => id === asked.id) ?? null;
  return (
    <section class="played" aria-label="Transcripts">
      <h2>The same questions, before and after</h2>
      <div class="played-grid">
        <ol class="asked-list" aria-label="Held-out questions">
          {questions.map((each, i) => (
            <li key={each.id}>
              <button type="button" class="asked-question" aria-pressed={i === place} onClick={() => choose(i)}>
                <Verdict transcript={each} />
                <Verdict transcript={latest?.transcripts.find(({ id }) => id === each.id) ?? null} />
                <span>
                  <Text text={each.question} />
                </span>
              </button>
            </li>
          ))}
        </ol>
        <div class="asked-now">
          <p class="asked-title">
            <Text text={asked.question} /> <span class="quiet-text">The answer is </span>
            <strong>
              <Text text={asked.answers.join(' or ')} />
            </strong>
          </p>
          <div class="sides">
            <Side title="Before training" transcript={asked} />
            <Side title={latest === null ? 'After training' : `After step ${latest.step}`} transcript={now} />
          </div>
        </div>
      </div>
    </section>
  );
}

function Side({ title, transcript }: { readonly title: string; readonly transcript: Transcript | null }): VNode {
  return (
    <article class={`side ${transcript === null ? 'side-empty' : (transcript.reward ?? 0) > 0 ? 'side-right' : 'side-wrong'}`}>
      <header>
        <h3>{title}</h3>
        {transcript !== null && <span class="side-verdict">{(transcript.reward ?? 0) > 0 ? '\u2713 right' : '\u2717 wrong'}</span>}
      </header>
      {transcript === null ? (
        <p class="quiet-text">Shown with the next evaluation.</p>
      ) : (
        <ol>
          {transcript.segments.map(({ kind, text }, i) => (
            <li key={i} class={kind === 'model' ? 'said by-model' : 'said by-environment'}>
              <span class="said-by">{kind === 'model' ? 'model' : 'environment'}</span>
              <TaggedText text={text.trim()} />
            </li>
          ))}
        </ol>
      )}
    </article>
  );
}

function Verdict({ transcript }: { readonly transcript: Transcript | null }): VNode {
  if (transcript === null)
    return (
      <span class="verdict" aria-label="not played yet">
        {'\u00b7'}
      </span>
    );
  const isRight = (transcript.reward ?? 0) > 0;
  return (
    <span class={`verdict ${isRight ? 'verdict-right' : 'verdict-wrong'}`} aria-label={isRight ? 'right' : 'wrong'}>
      {isRight ? '\u2713' : '\u2717'}
    </span>
  );
}
