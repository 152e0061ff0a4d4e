/** An environment that rewards the first and the third turn of every episode, and a model that plays it to its end. */
import { ScriptedClient } from '../../src/clients/scripted.ts';
import { environmentClient, noPolicies, TalkEnv, tokenizer } from '../server/environment/environment-client.ts';
import { loopback, readText, sendJson } from '../transport/loopback.ts';

/** What the policy says in an episode. */
export const WORDS = ['hello;', 'hi;', 'done;'] as const;

/** What the turns of an episode are worth by themselves. */
export const TURN_REWARDS = [0.5, null, -2] as const;
/** The same in a line of results. */
export const SHOWN = TURN_REWARDS.map((value) => value ?? 'none').join(', ');
/** Of the rollout: its number of turns. */
export const REWARD = WORDS.length;

export const rewardingTalk = () => new TalkEnv({ rows: 8, turnRewards: { 1: TURN_REWARDS[0], 3: TURN_REWARDS[2] } });

/** Serves it over HTTP. Whatever policy a caller names says the words. */
export const rewardingServer = () =>
  environmentClient(rewardingTalk(), {
    policies: {
      ...noPolicies,
      open: async () => {
        const client = new ScriptedClient({ turns: WORDS });
        return { client, models: null, [Symbol.asyncDispose]: () => client.close() };
      },
    },
  });

/** A chat server that says the words in order. `url` ends with `/v1`. */
export async function talkingModel() {
  const server = await loopback(async (request, response) => {
    const { model, messages } = JSON.parse(await readText(request)) as { readonly model: string; readonly messages: readonly unknown[] };
    const content = WORDS[JSON.stringify(messages).split('you said').length - 1]!;
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const choices = [{ index: 0, finish_reason: 'stop', logprobs: null, message: { role: 'assistant', content } }];
    sendJson(response, 200, { id: 'said', object: 'chat.completion', created: 0, model, choices, usage });
  });
  return { url: `${server.url}/v1`, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

/** A completions server that says the words in order, as ids of the tokenizer. `url` ends with `/v1`. */
export async function talkingTokens() {
  const server = await loopback(async (request, response) => {
    const { prompt } = JSON.parse(await readText(request)) as { readonly prompt: number[] };
    const said = await tokenizer.decode(Int32Array.from(prompt));
    const ids = [...(await tokenizer.encode(WORDS[said.split('you said').length - 1]!)).ids];
    sendJson(response, 200, { choices: [{ token_ids: ids, logprobs: { token_logprobs: ids.map(() => -0.5) } }] });
  });
  return { url: `${server.url}/v1`, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}
