/** Uses of the adapter, and the way to get the same one outside the page. */
import type { VNode } from 'preact';
import type { LabState } from '../run/lab-state.ts';

export function UseIt({ state, seed }: { readonly state: LabState; readonly seed: number }): VNode {
  const { about, steps } = state;
  const step = steps.at(-1)?.step ?? about?.steps ?? 15;
  const stopped = state.status === 'stopped';
  const threads = about?.threads ?? 2;
  return (
    <section class="use" aria-label="Beyond this page">
      <h2>Beyond this page</h2>
      <div class="use-grid">
        <div>
          <p>The same adapter, to the bit, in a checkout of vf-search:</p>
          <pre>{`vf-train search-r1 --preset laptop --seed ${seed} \\
${stopped ? `  --steps ${step} \\\n` : ''}  --set policy.embedded.threads=${threads}`}</pre>
        </div>
        <div>
          <p>The download is a PEFT adapter. Unpack it, and play all held-out questions with it:</p>
          <pre>{`vf-eval search-r1 -a '{"dataset": "fact-world"}' \\
  -p embedded -m ./nano-search-seed-${seed}-step-${step}`}</pre>
        </div>
      </div>
      {about !== null && <p class="quiet-text engine">{about.engine}</p>}
    </section>
  );
}
