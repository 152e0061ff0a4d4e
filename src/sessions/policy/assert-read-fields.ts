/**
 * Checks before a run that every sampling field has an effect: that the server reads it, that there is a chat template for the template's own fields, and that the
 * template uses its variables. A field that is printed and recorded but read by nobody would label one experiment as another.
 */
import type { PolicyClient, TokenLease } from '../../clients/policy-client.ts';
import { VllmServer } from '../../clients/vllm-server.ts';
import { ConfigError, PolicyError } from '../../core/errors.ts';
import type { Message } from '../../core/message.ts';
import { Random } from '../../core/random.ts';
import { renderedRequestFields, type Sampling, templateVariables } from '../../core/sampling.ts';
import type { ToolSpec } from '../../core/tool-calls.ts';
import { ServerFieldsShape } from '../../schemas/vllm.ts';
import type { SettingNames } from '../setting-names.ts';
import type { EndpointTarget } from './policy-target.ts';

export interface ReadFieldsOptions {
  readonly sampling: Pick<Sampling, 'extra'>;
  readonly client: PolicyClient;
  readonly target: Pick<EndpointTarget, 'baseUrls' | 'apiKey' | 'headers'>;
  /** The policy and its address, for errors. */
  readonly where: string;
  readonly names: Pick<SettingNames, 'name'>;
  readonly signal: AbortSignal;
}

/** Fields of the chat routes that prepare a prompt, with the way to set what they stand for. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  chat_template: 'Start the server with the template instead (--chat-template).',
  include_reasoning: 'By token ids the thoughts are part of the text.',
};
const LEAVE_OUT = 'Leave it out.';
/** The rollout sets the limit under the route's own name. */
const RENAMED: ReadonlySet<string> = new Set(['max_completion_tokens']);

/** Returns notices about fields of which nobody can say whether they have an effect. Throws ConfigError for a field without one. */
export async function assertReadFields(options: ReadFieldsOptions): Promise<readonly string[]> {
  const { sampling, client, where, names, signal } = options;
  const { extra = {} } = sampling;
  const source = names.name('sampling');
  const { kind, chatTemplate } = client.capabilities;
  if (kind === 'chat') return unreadNotices(Object.keys(extra), 'chat', options);
  const fields = Object.keys(renderedRequestFields(sampling));
  const variables = templateVariables(sampling);
  const [ofTemplate] = Object.keys(extra).filter((name) => !fields.includes(name));
  if (ofTemplate !== undefined && chatTemplate !== undefined && chatTemplate !== 'model') {
    throw new ConfigError(
      `${ofTemplate} in ${source} has no effect: ${where} has no chat template of its own, and only a template reads it. ${LEAVE_OUT}`,
    );
  }
  const notices = await unreadNotices(fields, 'completion', options);
  if (Object.keys(variables).length === 0) return notices;
  const lease = await client.lease(signal);
  await using _ = lease;
  const unused = lease.kind === 'tokens' ? await unusedVariables(lease, variables) : [];
  const more = unused.map(
    (name) =>
      `the chat template of ${where} writes the same prompts whatever ${name} (${source}) is: it has no effect, or only in longer conversations`,
  );
  return [...notices, ...more];
}

async function unreadNotices(
  fields: readonly string[],
  route: 'completion' | 'chat',
  { target, client, where, names, signal }: ReadFieldsOptions,
): Promise<readonly string[]> {
  const source = names.name('sampling');
  const asked = fields.filter((name) => !RENAMED.has(name));
  // Only vLLM reports its window; other chat APIs refuse what they do not know, or say nothing.
  if (asked.length === 0 || (route === 'chat' && client.capabilities.maxModelLen === null)) return [];
  const read = await serverFields(target, route, signal);
  const unread = read === null ? [] : asked.filter((name) => !read.has(name));
  const [first] = unread;
  if (first === undefined) return read === null ? unlisted(asked, where, source) : [];
  const list = unread.join(', ');
  const path = route === 'chat' ? '/v1/chat/completions' : '/v1/completions';
  const remedy =
    first === 'enable_thinking'
      ? `Write it as chat_template_kwargs: {"enable_thinking": …}.`
      : (ELSEWHERE[first] ?? (unread.length === 1 ? LEAVE_OUT : 'Leave them out.'));
  throw new ConfigError(
    `${list} in ${source} ${unread.length === 1 ? 'has' : 'have'} no effect: ${path} of ${where} does not read ${unread.length === 1 ? 'it' : 'them'}. ${remedy}`,
  );
}

/** Fields of vLLM since 0.5, which need no notice if the server does not list its own. */
const OLD_FIELDS: ReadonlySet<string> = new Set(
  (
    'top_k min_p min_tokens ignore_eos repetition_penalty length_penalty presence_penalty frequency_penalty logit_bias bad_words user allowed_token_ids ' +
    'response_format structured_outputs max_tokens priority spaces_between_special_tokens chat_template_kwargs reasoning_effort documents'
  ).split(' '),
);

function unlisted(asked: readonly string[], where: string, source: string): readonly string[] {
  const unknown = asked.filter((name) => !OLD_FIELDS.has(name));
  return unknown.map((name) => `${where} does not list the fields that it reads (/openapi.json), so ${name} in ${source} may have no effect`);
}

/** The names of the fields that the server's route reads; null if it does not list them. */
async function serverFields(
  { baseUrls, apiKey, headers }: ReadFieldsOptions['target'],
  route: 'completion' | 'chat',
  signal: AbortSignal,
): Promise<ReadonlySet<string> | null> {
  const server = new VllmServer({
    baseUrl: baseUrls[0]!,
    headers,
    random: Random.fromSeed(0),
    maxRetries: 0,
    timeoutMs: 10_000,
    ...(apiKey === null ? {} : { apiKey }),
  });
  try {
    const { components } = await server.get('/openapi.json', ServerFieldsShape, signal);
    const schema = components?.schemas?.[route === 'chat' ? 'ChatCompletionRequest' : 'CompletionRequest'];
    return schema?.properties === undefined ? null : new Set(Object.keys(schema.properties));
  } catch (error) {
    if (error instanceof PolicyError) return null;
    throw error;
  } finally {
    await server.close();
  }
}

const TOOL: ToolSpec = {
  name: 'look_up',
  description: 'Finds a word.',
  parameters: { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] },
};
const CALL = { id: 'call00000', name: 'look_up', arguments: '{"word":"a"}' };
const QUESTION: Message = { role: 'user', content: 'a' };
const CONVERSATIONS: readonly { readonly messages: readonly Message[]; readonly tools: readonly ToolSpec[] }[] = [
  { messages: [QUESTION], tools: [] },
  { messages: [{ role: 'system', content: 'a' }, QUESTION], tools: [TOOL] },
  {
    messages: [
      QUESTION,
      { role: 'assistant', content: '<think>\na\n</think>\n\na', toolCalls: [CALL] },
      { role: 'tool', content: 'a', toolCallId: CALL.id },
      { role: 'assistant', content: '<think>\na\n</think>\n\na' },
      QUESTION,
    ],
    tools: [TOOL],
  },
];

/** The variables without which, and with whose other values, the template writes the same prompts. */
async function unusedVariables(lease: TokenLease, variables: Readonly<Record<string, unknown>>): Promise<readonly string[]> {
  const unused: string[] = [];
  for (const [name, value] of Object.entries(variables)) {
    const { [name]: _, ...others } = variables;
    const without = await promptTexts(lease, others);
    let isUsed = false;
    for (const tried of [value, true, false, 'low', []]) {
      isUsed ||= (await promptTexts(lease, { ...others, [name]: tried })) !== without;
      if (isUsed) break;
    }
    if (!isUsed) unused.push(name);
  }
  return unused;
}

/** The ids of all conversations as one string; a rejected one is text too. */
async function promptTexts(lease: TokenLease, variables: Readonly<Record<string, unknown>>): Promise<string> {
  const rendered = CONVERSATIONS.map(async ({ messages, tools }) => {
    try {
      return (await lease.render(messages, { format: 'chat', tools, variables })).ids.join();
    } catch (error) {
      if (error instanceof PolicyError && error.status === 400) return 'rejected';
      throw error;
    }
  });
  return (await Promise.all(rendered)).join(';');
}
