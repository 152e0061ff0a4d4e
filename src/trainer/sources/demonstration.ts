/** Turns supervised rows into trajectories, with the prompts, turn ends and BOS that sampling uses. */
import type { TokenLease } from '../../clients/policy-client.ts';
import type { TurnFormat } from '../../core/environment.ts';
import { ConfigError } from '../../core/errors.ts';
import { type ContentPart, type ImageRef, type Message, type MessageContent, markedText, type PlacedImage } from '../../core/message.ts';
import type { TextSegment } from '../../core/rubric.ts';
import type { DemonstrationMessage, DemonstrationSegment, MessagesRow, PromptRow, TokensRow } from '../../schemas/demonstration-row.ts';
import { placedImageOf } from '../../rollouts/rollout-columns.ts';
import type { ReadDemonstration } from './read-demonstrations.ts';
import { POLICY_ROLE, type Trajectory } from '../trajectory.ts';

/** Tokenises a row: a lease of the policy, or a tokenizer on this machine that gives the same ids. */
export interface DemonstrationTokenizer extends Pick<TokenLease, 'render' | 'renderNext' | 'encode'> {
  /** The control token that ends a turn in a chat; null if there is none. */
  readonly closingTokenId: number | null;
  /** Identifies the tokenizer, to refuse ids of another one; null if unknown. */
  readonly tokenizerHash: string | null;
  /** The environment's format, in which a prompt with segments is rendered. */
  readonly turnFormat: TurnFormat;
  /**
   * The picture of this name, in the run's store, in the size at which the model sees it; with `isPlaced` in its own size, because its tokens have been counted. Rejects with
   * ConfigError, without the place of the row, if it cannot be shown. @default rows show no pictures
   */
  readonly picture?: (name: string, options?: { readonly isPlaced?: boolean }) => Promise<ImageRef>;
}

/** Tokens with their weights: 0 has no loss. */
interface Weighted {
  readonly ids: readonly number[];
  /** Among the ids, by their offsets in them. @default none */
  readonly images?: readonly PlacedImage[];
  readonly weight: number | readonly number[];
  /** Null for a prompt. */
  readonly segment: TextSegment | null;
}

/**
 * The trajectory of a row: neither scored nor failed, with weights instead of a reward. Throws ConfigError for a row that cannot be tokenised, for example because
 * its ids come from another tokenizer or its conversation has no token to learn.
 */
export async function demonstrationOf({ row, place }: ReadDemonstration, tokenizer: DemonstrationTokenizer): Promise<Trajectory> {
  const pieces =
    'token_ids' in row
      ? await tokenPieces(row, tokenizer, place)
      : 'messages' in row
        ? await chatPieces(row, tokenizer, place)
        : await promptPieces(row, tokenizer, place);
  const ids = Int32Array.from(pieces.flatMap((piece) => piece.ids));
  const images = placedImages(pieces);
  const weights = pieces.flatMap(({ ids: own, weight }) => (typeof weight === 'number' ? own.map(() => weight) : weight));
  // Nothing predicts the first token.
  const targets = Int32Array.from(ids.keys()).filter((at) => at > 0 && weights[at]! > 0);
  if (targets.length === 0)
    throw new ConfigError(`${place} has no token to learn: give it a message of the assistant, a segment of kind "model", or a loss_mask with a 1`);
  const ofTargets = Float64Array.from(targets, (at) => weights[at]!);
  return {
    rolloutId: `${place}/0`,
    groupId: place,
    index: 0,
    role: POLICY_ROLE,
    task: row.task ?? null,
    reward: null,
    metrics: {},
    error: null,
    stop: 'demonstration',
    isTruncated: false,
    isCut: false,
    turns: pieces.filter(({ segment }) => segment?.kind === 'model').length,
    policy: { model: 'demonstration', version: 0 },
    usage: { inputTokens: 0, outputTokens: 0, cachedTokens: null },
    ids,
    promptLength: targets[0]!,
    targets,
    logProbs: null,
    ...(images.length === 0 ? {} : { images }),
    ...(ofTargets.every((weight) => weight === 1) ? {} : { weights: ofTargets }),
    segments: pieces.flatMap(({ segment }) => segment ?? []),
  };
}

function placedImages(pieces: readonly Weighted[]): PlacedImage[] {
  let start = 0;
  return pieces.flatMap(({ ids, images = [] }) => {
    const placed = images.map((image) => ({ ...image, offset: start + image.offset }));
    start += ids.length;
    return placed;
  });
}

async function tokenPieces(
  { token_ids: ids, loss_mask: mask, weights, tokenizer_hash: hash, images = [] }: TokensRow,
  { tokenizerHash, picture }: DemonstrationTokenizer,
  place: string,
): Promise<Weighted[]> {
  if (typeof hash === 'string' && tokenizerHash !== null && hash !== tokenizerHash)
    throw new ConfigError(`${place} holds token ids of another tokenizer; export it again with this model, or give messages`);
  // Puts the bytes into the run's own folder.
  for (const [at, { sha256 }] of images.entries()) await pictureOf(sha256, picture, { where: `${place}: images[${at}]`, isPlaced: true });
  const weight = ids.map((_, at) => (mask?.[at] ?? 1) * (weights?.[at] ?? 1));
  return [{ ids, images: images.map(placedImageOf), weight, segment: null }];
}

async function promptPieces({ prompt, segments, completion }: PromptRow, tokenizer: DemonstrationTokenizer, place: string): Promise<Weighted[]> {
  const first = typeof prompt === 'string' ? null : prompt;
  if (Array.isArray(completion)) {
    const history: readonly DemonstrationMessage[] = first ?? [{ role: 'user', content: prompt as string }];
    const silent = history.map((message) => ({ ...message, weight: 0 }));
    return chatPieces({ messages: [...silent, ...completion] }, tokenizer, place);
  }
  // Text is taken as it is: in continuation format with the tokenizer's BOS, exactly as a base model receives it.
  const rendered =
    first === null
      ? await tokenizer.render([{ role: 'user', content: prompt as string }], { format: 'continuation' })
      : await tokenizer.render(await shown(first, tokenizer, place), { format: tokenizer.turnFormat });
  const pieces: Weighted[] = [{ ids: [...rendered.ids], images: rendered.images, weight: 0, segment: null }];
  for (const [i, segment] of (segments ?? [{ kind: 'model' as const, text: completion as string }]).entries())
    pieces.push(await segmentPiece(segment, tokenizer, i === 0 ? rendered.opening : ''));
  return pieces;
}

async function segmentPiece(
  { kind, text, weight = kind === 'model' ? 1 : 0, ends_turn: endsTurn = false }: DemonstrationSegment,
  tokenizer: DemonstrationTokenizer,
  opening = '',
): Promise<Weighted> {
  const closing = endsTurn ? (tokenizer.closingTokenId ?? []) : [];
  return {
    ids: [...(await tokenizer.encode(behindOpening(text, opening)))].concat(closing),
    weight,
    segment: { kind: kind === 'model' ? 'model' : 'observation', text },
  };
}

/** The part of a turn that the policy would sample: the template has written its opening, such as `<think>`, already. */
function behindOpening(text: string, opening: string): string {
  if (text.startsWith(opening)) return text.slice(opening.length);
  const bare = opening.trimEnd();
  return text.startsWith(bare) ? text.slice(bare.length).trimStart() : text;
}

/** A chat as it is sampled: the first prompt, each turn of the assistant with the token that ends it, and the bridge to the next one. */
async function chatPieces({ messages }: MessagesRow, tokenizer: DemonstrationTokenizer, place: string): Promise<Weighted[]> {
  const { closingTokenId } = tokenizer;
  const called = messages.find(({ tool_calls: calls }) => calls !== undefined && calls.length > 0);
  if (called)
    throw new ConfigError(`${place} has tool_calls; write the calls into content as the model writes them, or give token ids (vf-export --sft)`);
  const begin = messages.findIndex(({ role }) => role === 'assistant');
  if (begin < 1) throw new ConfigError(`${place} ${begin < 0 ? 'has no message of the assistant' : 'begins with a message of the assistant'}`);
  const conversation = await shown(messages, tokenizer, place);
  const prompt = await tokenizer.render(conversation.slice(0, begin));
  const pieces: Weighted[] = [{ ids: [...prompt.ids], images: prompt.images, weight: 0, segment: null }];
  let { opening = '' } = prompt;
  for (let at = begin; at < messages.length;) {
    const { content, weight = 1 } = messages[at]!;
    if (typeof content !== 'string') throw new ConfigError(`${place}: messages[${at}] is the assistant's and must be text`);
    const closing = closingTokenId === null ? [] : [closingTokenId];
    pieces.push({
      ids: [...(await tokenizer.encode(behindOpening(content, opening))), ...closing],
      weight,
      segment: { kind: 'model', text: content },
    });
    const after = messages.slice(at + 1);
    const next = after.findIndex(({ role }) => role === 'assistant');
    // Nothing answers the messages after the last turn of the assistant.
    if (next < 0) break;
    const between = conversation.slice(at + 1, at + 1 + next);
    const bridge = await tokenizer.renderNext(conversation.slice(0, at + 1), between, { isClosed: closingTokenId !== null });
    const text = between.map((message) => markedText(message.content)).join('\n');
    pieces.push({ ids: [...bridge.ids], images: bridge.images, weight: 0, segment: { kind: 'observation', text } });
    opening = bridge.opening ?? '';
    at += 1 + next;
  }
  return pieces;
}

/** The messages with their pictures in the run's store. */
function shown(messages: readonly DemonstrationMessage[], tokenizer: DemonstrationTokenizer, place: string): Promise<Message[]> {
  return Promise.all(
    messages.map(async ({ role, content, tool_call_id: id }, at) => ({
      role,
      content: await shownContent(content, tokenizer, `${place}: messages[${at}]`),
      ...(id === undefined ? {} : { toolCallId: id }),
    })),
  );
}

async function shownContent(content: DemonstrationMessage['content'], { picture }: DemonstrationTokenizer, where: string): Promise<MessageContent> {
  if (typeof content === 'string') return content;
  return Promise.all(
    content.map(async (part): Promise<ContentPart> => {
      if ('text' in part) return { type: 'text', text: part.text };
      const image = await pictureOf(part.image, picture, { where });
      return { type: 'image', image };
    }),
  );
}

/** `where`: the place of the row, and the part of it that shows the picture. */
async function pictureOf(
  name: string,
  picture: DemonstrationTokenizer['picture'],
  { where, isPlaced = false }: { readonly where: string; readonly isPlaced?: boolean },
): Promise<ImageRef> {
  if (picture === undefined) throw new ConfigError(`${where} shows the picture ${JSON.stringify(name)}; set sft.images to the folder that holds it`);
  return picture(name, { isPlaced }).catch((cause: unknown) => {
    throw cause instanceof ConfigError ? new ConfigError(`${where} shows a picture that cannot be used: ${cause.message}`, { cause }) : cause;
  });
}
