/** Checks that a chat API accepts tools before a run that offers them; otherwise the server would reject every request of the run. */
import type { PolicyClient } from '../../clients/policy-client.ts';
import { ConfigError, PolicyError } from '../../core/errors.ts';

/** An arbitrary tool: the check covers support for tools, not for particular schemas. */
const TOOL = { name: 'look_up', description: 'Looks up a word.', parameters: { type: 'object', properties: { word: { type: 'string' } } } };
const VLLM_FLAGS = "--enable-auto-tool-choice --tool-call-parser hermes (or the model's own parser)";
const VLLM_REMEDY = `Start vLLM with ${VLLM_FLAGS}, play by token ids (--api-client-type tokens), or use calls "text" in the ToolEnv.`;
const REMEDY = `Choose a model and an API that support tools, or use calls "text" in the ToolEnv. If the server is vLLM, start it with ${VLLM_FLAGS}.`;
/** The first completion of a fresh server can take many seconds. */
const ANSWER_MS = 120_000;

interface TakesToolsOptions {
  readonly environmentId: string;
  /** The server, for errors. */
  readonly where: string;
  /** The server is known to be vLLM. */
  readonly isVllm: boolean;
  readonly signal: AbortSignal;
}

/** Sends one request for one token. Throws ConfigError with the server's message if it rejects tools; ignores any other failure, which the run will report. */
export async function assertTakesTools(client: PolicyClient, { environmentId, where, isVllm, signal }: TakesToolsOptions): Promise<void> {
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
    // Some servers reject a limit of one token; that does not concern tools.
    if (!(error instanceof PolicyError) || !isRefusal(error)) return;
    const said = error.message.replace(/\.$/, '');
    const remedy = isVllm || said.includes('--enable-auto-tool-choice') ? VLLM_REMEDY : REMEDY;
    throw new ConfigError(`${environmentId} calls tools natively, but ${where} rejects tools: ${said}. ${remedy}`, { cause: error });
  }
}

function isRefusal({ status, message }: PolicyError): boolean {
  // The message quotes the URL, whose path may contain the words.
  const text = message.replace(/https?:\/\/\S+/g, '');
  return (status === 400 || status === 422 || status === 501) && /\btools?\b|tool[_ -]|function[_ -]?call/i.test(text);
}
