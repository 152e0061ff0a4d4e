import { describe, expect, it } from 'vitest';
import { PublishError } from '../../../src/core/errors.ts';
import type { LoraReplica } from '../../../src/trainer/publisher/lora-routes.ts';
import { tooFewReplicas } from '../../../src/trainer/publisher/publish-failure.ts';

const at = (url: string, error: PublishError) => ({ replica: { url } as LoraReplica, error });

describe('tooFewReplicas', () => {
  it('names a replica that refuses the version, where another one is away and would complete the quorum', () => {
    const refusal = at('http://b', new PublishError('the adapter is not applied'));
    const error = tooFewReplicas([refusal], { replicas: 3, loaded: 1, quorum: 2, healed: [] });
    expect(error.message).toBe(
      '1 of 3 replicas took it and 1 did not answer, but publish.quorum is 2; http://b refused it: the adapter is not applied',
    );
    expect(error).toMatchObject({ retryable: true, refused: ['http://b'] });
  });

  it('is final where too many refuse', () => {
    const refusals = ['http://b', 'http://c'].map((url) => at(url, new PublishError('rank 16 is too large', { endsRun: true })));
    const error = tooFewReplicas(refusals, { replicas: 3, loaded: 1, quorum: 2, healed: [] });
    expect(error).toMatchObject({ retryable: false, endsRun: true, refused: ['http://b', 'http://c'] });
    expect(error.message).toContain('rank 16 is too large');
  });
});
