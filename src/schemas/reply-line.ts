/** One line of a cache of replies: a model's reply to the request whose hash is `key`. */
import { object, text } from './json-schema.ts';
import { finish, usage } from './rollout-columns.ts';

export const ReplyLineSchema = object({ key: text, model: text, finish, usage: object(usage), text }, { reasoning: text });
