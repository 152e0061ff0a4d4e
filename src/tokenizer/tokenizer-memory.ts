/** What is known of one tokenizer and its template, shared by everything that uses it. */
import { LRUCache } from 'lru-cache';
import { AskedOnce } from './asked-once.ts';
import { ControlTokens } from './control-tokens.ts';
import type { ChatTemplateKind, EncodedText, ImageTokenRules } from './policy-tokenizer.ts';
import { TurnOpenings } from './turn-opening.ts';

/** Total characters of cached texts: those of the groups in play, whose rollouts share prompts and passages. With their ids they take up to five times as many bytes. */
const CACHED_CHARS = 2 ** 19;
/** Known facts about a tokenizer; missing ones are found out when needed. */
export interface TokenizerFacts {
  /** The model has a chat template. @default null, unknown */
  readonly hasTemplate?: boolean | null;
  /** False saves the request for the ids of BOS. @default unknown */
  readonly beginsWithBos?: boolean;
  /** The control token that ends an assistant turn; null if there is none. @default unknown */
  readonly closingTokenId?: number | null;
  /** The rules by which the model turns images into tokens; null if it reads text only. @default null */
  readonly imageTokens?: ImageTokenRules | null;
}

/** The facts found out about one tokenizer, and the texts that it encoded; shared by all `ChatTokenizer`s of that tokenizer. */
export class TokenizerMemory {
  readonly control = new ControlTokens();
  readonly encoded = textCache();
  /** From an opening's messages and tools, as JSON, to its ids. The rollouts of a group share one entry. */
  readonly opened = textCache();
  readonly hasTemplate: AskedOnce<boolean>;
  readonly kind = new AskedOnce<ChatTemplateKind>();
  readonly bos: AskedOnce<readonly number[]>;
  readonly closing: AskedOnce<number | null>;
  readonly imageTokens: ImageTokenRules | null;
  readonly openings = new TurnOpenings();
  /** The template has written something else after a short history than after the whole one. */
  readsWholeHistories = false;
  /** The template's spelling of an image. */
  readonly imageSpelling = new AskedOnce<string>();

  constructor(facts: TokenizerFacts = {}) {
    this.imageTokens = facts.imageTokens ?? null;
    this.hasTemplate = new AskedOnce(facts.hasTemplate ?? undefined);
    this.bos = new AskedOnce(facts.beginsWithBos === false ? [] : undefined);
    this.closing = new AskedOnce(facts.closingTokenId);
  }
}

function textCache(): LRUCache<string, Promise<EncodedText>> {
  return new LRUCache({ maxSize: CACHED_CHARS, sizeCalculation: (_, text) => text.length });
}

/** The entry of a text; if there is none, or its first caller failed, it is encoded now. */
export function cached(cache: LRUCache<string, Promise<EncodedText>>, key: string, encode: () => Promise<EncodedText>): Promise<EncodedText> {
  const known = cache.get(key);
  // If the first caller's request fails, for example because it was cancelled, this caller sends its own.
  if (known !== undefined) return known.catch(encode);
  const ids = encode();
  cache.set(key, ids);
  ids.catch(() => cache.delete(key));
  return ids;
}
