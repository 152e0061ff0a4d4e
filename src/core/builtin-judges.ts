/** Deterministic judges without a model, for tests and as builtin models of environments. */
import { isObject } from '../schemas/is-object.ts';
import type { JudgeData, Judgement } from './judge-rubric.ts';
import type { Message } from './message.ts';
import type { Model, ModelRequest } from './model.ts';

export interface ScriptedModelOptions {
  /** The replies in order, or a function that writes a reply; if it throws, the model has failed. */
  readonly replies: readonly string[] | ((messages: readonly Message[], request: ModelRequest) => string | Promise<string>);
  /** @default 'scripted' */
  readonly name?: string;
}

/**
 * A model that gives prepared replies and throws RangeError when they run out. It counts words as tokens.
 * @example scriptedModel({ replies: ['{"reason": "It agrees.", "score": 1}'] })
 */
export function scriptedModel({ replies, name = 'scripted' }: ScriptedModelOptions): Model {
  let given = 0;
  return {
    name,
    async generate(messages, request) {
      const text = typeof replies === 'function' ? await replies(messages, request) : replies[given++];
      if (text === undefined)
        throw new RangeError(
          `The script of ${name} has no reply left, but another was requested. Give it more replies, or a function that writes them.`,
        );
      const promptTokens = messages.reduce((sum, { content }) => sum + words(typeof content === 'string' ? content : ''), 0);
      return { text, usage: { promptTokens, completionTokens: words(text), cachedTokens: null }, finish: 'stop', version: null };
    },
  };
}

/**
 * A judge from a function of question, reference answer and response, for the roles of a JudgeRubric with its default schema.
 * @example judgeBy(({ response }) => ({ score: response.length < 100 ? 1 : 0, reason: 'The limit is 100 characters.' }), 'short-answers')
 */
export function judgeBy(judge: (data: JudgeData) => Judgement, name: string): Model {
  return scriptedModel({
    name,
    replies: (_, { data }) => {
      // The caller knows the role and wraps this in a ModelError.
      if (!isJudgeData(data))
        throw new TypeError('The judge needs the data of a JudgeRubric, but the request has none. Call it through JudgeRubric or judgeReward.');
      const { reason, score } = judge(data);
      return JSON.stringify({ reason, score });
    },
  });
}

export interface ExactMatchJudgeOptions {
  /** `equal`: the answer must equal the reference. `contains`: it must contain the reference as whole words. @default 'equal' */
  readonly match?: 'equal' | 'contains';
}

/**
 * A judge that scores 1 if the answer found by the rubric's parser matches the reference answer, ignoring case, punctuation, articles and spaces, else 0.
 * Calls with the same `match` return the same object, so that environments that declare it can be members of one EnvGroup.
 * @example const roles = { judge: { about: 'scores the answer', default: 'builtin', builtin: exactMatchJudge({ match: 'contains' }) } };
 */
export function exactMatchJudge({ match = 'equal' }: ExactMatchJudgeOptions = {}): Model {
  return match === 'equal' ? EXACT_MATCH : CONTAINS_MATCH;
}

const EXACT_MATCH = judgeBy((data) => matched(data, (given, wanted) => given === wanted), 'exact-match');
const CONTAINS_MATCH = judgeBy((data) => matched(data, (given, wanted) => ` ${given} `.includes(` ${wanted} `)), 'contains-match');

function matched({ answer, parsed }: JudgeData, isMatch: (given: string, wanted: string) => boolean): Judgement {
  if (answer === null) throw new RangeError("The judge compares with the reference answer, but the row has none. Set the row's answer.");
  if (parsed === null) return { score: 0, reason: 'The response has no answer.' };
  const isRight = isMatch(normalized(parsed), normalized(answer));
  return { score: isRight ? 1 : 0, reason: isRight ? `It says "${answer}".` : `It does not say "${answer}".` };
}

/** Lower case without punctuation, English articles and extra spaces. */
function normalized(text: string): string {
  return text
    .toLowerCase()
    .replace(/[\p{P}\p{S}]+/gu, ' ')
    .replace(/\b(a|an|the)\b/g, ' ')
    .replace(/\s+/g, ' ')
    .trim();
}

function words(text: string): number {
  return text.split(/\s+/).filter((word) => word !== '').length;
}

function isJudgeData(data: unknown): data is JudgeData {
  return isObject(data) && 'response' in data && 'parsed' in data;
}
