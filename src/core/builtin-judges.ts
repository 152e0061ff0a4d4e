/** Judges without a model, for tests and as what an environment brings: the same question gets the same score, on any machine and at no cost. */
import { isObject } from '../schemas/is-object.ts';
import type { JudgeData, Judgement } from './judge-rubric.ts';
import type { Message } from './message.ts';
import type { Model, ModelRequest } from './model.ts';

export interface ScriptedModelOptions {
  /** The replies in order, or a function that writes one; what it throws is a failure of the model. */
  readonly replies: readonly string[] | ((messages: readonly Message[], request: ModelRequest) => string | Promise<string>);
  /** @default 'scripted' */
  readonly name?: string;
}

/** Gives written replies. Its tokens are words. */
export function scriptedModel({ replies, name = 'scripted' }: ScriptedModelOptions): Model {
  let given = 0;
  return {
    name,
    async generate(messages, request) {
      const text = typeof replies === 'function' ? await replies(messages, request) : replies[given++];
      if (text === undefined) throw new RangeError(`The script of ${name} has ${replies.length} replies, and one more was asked for.`);
      const promptTokens = messages.reduce((sum, { content }) => sum + words(typeof content === 'string' ? content : ''), 0);
      return { text, usage: { promptTokens, completionTokens: words(text), cachedTokens: null }, finish: 'stop', version: null };
    },
  };
}

/** Judges by a function of question, reference answer and response; for the roles that a JudgeRubric asks with its default schema. */
export function judgeBy(judge: (data: JudgeData) => Judgement, name: string): Model {
  return scriptedModel({
    name,
    replies: (_, { data }) => {
      // Which role it plays is known to whoever asks it: that makes a ModelError of this.
      if (!isJudgeData(data))
        throw new TypeError('The judge reads the data of a JudgeRubric, but the request has none. Ask it through JudgeRubric or judgeReward.');
      const { reason, score } = judge(data);
      return JSON.stringify({ reason, score });
    },
  });
}

export interface ExactMatchJudgeOptions {
  /** `equal`: the whole answer is the reference. `contains`: the reference stands in it, word for word. @default 'equal' */
  readonly match?: 'equal' | 'contains';
}

/**
 * Scores 1 where the policy's answer is the reference answer but for case, punctuation, articles and spaces, else 0. The answer is what the
 * rubric's parser finds. Every call with the same `match` gives the same object, so that environments which bring it can stand in one group.
 */
export function exactMatchJudge({ match = 'equal' }: ExactMatchJudgeOptions = {}): Model {
  return match === 'equal' ? EXACT_MATCH : CONTAINS_MATCH;
}

const EXACT_MATCH = judgeBy((data) => matched(data, (given, wanted) => given === wanted), 'exact-match');
const CONTAINS_MATCH = judgeBy((data) => matched(data, (given, wanted) => ` ${given} `.includes(` ${wanted} `)), 'contains-match');

function matched({ answer, parsed }: JudgeData, isMatch: (given: string, wanted: string) => boolean): Judgement {
  // Not a wrong answer: nobody can tell.
  if (answer === null) throw new RangeError('The judge compares with the reference answer, but the row has none.');
  if (parsed === null) return { score: 0, reason: 'The response has no answer.' };
  const isRight = isMatch(normalized(parsed), normalized(answer));
  return { score: isRight ? 1 : 0, reason: isRight ? `It says "${answer}".` : `It does not say "${answer}".` };
}

/** Lower case, without punctuation and English articles, single spaces. */
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
