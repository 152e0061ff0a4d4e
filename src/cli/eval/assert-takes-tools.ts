/** Whether a chat API takes tools: asked before a run that offers them, because a server without them refuses every request of that run. */
import type { PolicyClient } from '../../clients/policy-client.ts';
import { ConfigError, PolicyError } from '../../core/errors.ts';

/** What the server makes of its parameters is not asked. */
const TOOL = { name: 'look_up', description: 'Looks up a word.', parameters: { type: 'object', properties: { word: { type: 'string' } } } };
/** The first completion of a fresh server takes many seconds. */
const ANSWER_MS = 120_000;

/** One request of one token, without retries of its own. Throws ConfigError with the server's message; any other failure is left to the run. */
export async function assertTakesTools(
  client: PolicyClient,
  { environmentId, where, signal }: { readonly environmentId: string; readonly where: string; readonly signal: AbortSignal },
): Promise<void> {
  await using lease = await client.lease(signal);
  if (lease.kind !== 'chat') return;
  try {
    await lease.generate({
      prompt: [{ role: 'user', content: 'Hello' }],
      tools: [TOOL],
      sampling: { temperature: 1, topP: 1 },
      stop: [],
      maxNewTokens: 1,
      signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]),
    });
  } catch (error) {
    if (signal.aborted) throw error;
    // A reasoning model may refuse so few tokens; that says nothing about tools.
    if (!(error instanceof PolicyError) || !isRefusal(error)) return;
    throw new ConfigError(
      `${environmentId} calls tools natively, and ${where} takes none: ${error.message.replace(/\.$/, '')}. Start vLLM with --enable-auto-tool-choice --tool-call-parser hermes (or the model's own parser), play by token ids (--api-client-type tokens), or use calls "text" in the ToolEnv.`,
      { cause: error },
    );
  }
}

function isRefusal({ status, message }: PolicyError): boolean {
  return (status === 400 || status === 422 || status === 501) && /tool|function/i.test(message);
}
