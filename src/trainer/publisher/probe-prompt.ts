/** The prompt on which server and trainer are compared before the policy has written anything. */
import type { PolicyClient } from '../../clients/policy-client.ts';
import { ResultsError } from '../../core/errors.ts';
import { type Message, withoutImages } from '../../core/message.ts';
import type { GradientBackend } from '../gradient-backend.ts';

interface ProbePromptOptions {
  readonly backend: Pick<GradientBackend, 'capabilities'>;
  readonly signal: AbortSignal;
}

/** Token ids of the prompt's text, [T]: its beginning, if a sampled token would not fit behind the whole in the server's window and the backend's. */
export async function probePrompt(client: PolicyClient, prompt: readonly Message[], { backend, signal }: ProbePromptOptions): Promise<Int32Array> {
  await using lease = await client.lease(signal);
  if (lease.kind !== 'tokens') throw new ResultsError('The policy does not accept token ids; use a vLLM server or the embedded engine');
  // Every model renders a continuation, with a chat template or without.
  const { ids } = await lease.render(withoutImages(prompt), { format: 'continuation' });
  return ids.subarray(0, Math.min(client.capabilities.maxModelLen ?? Infinity, backend.capabilities.maxTokens) - 1);
}
