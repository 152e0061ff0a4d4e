/** Turns records of rollouts into the parts of a page: prompt, parts by writer, references, images. */
import { IMAGE_MARK } from '../core/message.ts';
import { unpackInt32 } from '../schemas/packed-array.ts';
import { segmentMessages } from '../schemas/segment-messages.ts';
import type { ModelTokenizer } from '../tokenizer/tokenizer-types.ts';
import { type Fields, fieldsOf, listOf, numberOf, textOf } from './loose-fields.ts';
import type { RolloutCredit, TurnFigures } from './credit-wire.ts';
import type { Asked, Content, Message, Part } from './view-wire.ts';

/** The prompt of a record: its messages, or for a rollout of a training step its decoded tokens. Empty if those are not available. */
export function promptOf(record: Fields, tokenizer: ModelTokenizer | null): Message[] {
  if (Array.isArray(record['prompt'])) return record['prompt'].map(messageOf);
  // Verifiers also writes prompts that are one text.
  if (typeof record['prompt'] === 'string') return [{ role: 'prompt', content: textContent(record['prompt']), tool_calls: [] }];
  const length = numberOf(record['prompt_length']) ?? 0;
  const ids = typeof record['ids'] === 'string' ? unpackInt32(record['ids']) : null;
  if (tokenizer === null || ids === null || length === 0) return [];
  const images = imagesOf(record).filter(({ offset }) => offset < length);
  return chatMessages(tokenizer.decode(ids.subarray(0, length), { skipSpecialTokens: false })).map(({ role, text }) => ({
    role,
    content: markedContent(text, images),
    tool_calls: [],
  }));
}

/** Everything after the prompt: messages if they have calls or images that segments lack or `isByMessage`, else segments by writer. */
export function partsOf(record: Fields, isByMessage = false): Part[] {
  return withTurns(writtenParts(record, isByMessage), listOf(record['turn_rewards']).map(numberOf), (reward) => ({ reward }));
}

/** The parts with the advantage of each turn, where turns have different ones. */
export function withTurnAdvantages(parts: readonly Part[], { turn_advantages: advantages }: RolloutCredit): Part[] {
  return withTurns(parts, advantages ?? [], (advantage) => ({ advantage }));
}

/** Adds what is known of each turn to the model's part, unless parts are not turns, as when the whole episode is one message. */
function withTurns(parts: readonly Part[], values: readonly (number | null)[], figure: (value: number) => TurnFigures): Part[] {
  const turns = parts.filter(({ kind }) => kind === 'model');
  return parts.map((part) => {
    const value = turns.length === values.length && part.kind === 'model' ? values[turns.indexOf(part)]! : null;
    return value === null ? part : { ...part, ...figure(value) };
  });
}

function writtenParts(record: Fields, isByMessage: boolean): Part[] {
  const completion = listOf(record['completion']).map(fieldsOf);
  const segments = listOf(record['segments']).map(fieldsOf);
  const isRich = completion.some(
    (message) => listOf(message['tool_calls']).length > 0 || listOf(message['parts']).some((part) => fieldsOf(part)['type'] === 'image'),
  );
  if (segments.length === 0 || isRich || (isByMessage && completion.length > 0)) {
    const turns = segments.filter(({ kind }) => kind === 'model').values();
    const ranges = segmentMessages(segments, completion) ?? [];
    const isGiven = new Set(ranges.flatMap(({ start, end }, i) => (segments[i]!['kind'] === 'model' ? [] : completion.slice(start, end))));
    return completion.map((message) => {
      const { role, content, tool_calls } = messageOf(message);
      if (role === 'assistant' && isGiven.has(message)) return { kind: 'given', content, tool_calls };
      return role === 'assistant' ? { kind: 'model', content, tool_calls, ...thoughtsOf(turns.next().value) } : { kind: role, content, tool_calls };
    });
  }
  const promptLength = numberOf(record['prompt_length']) ?? 0;
  const images = imagesOf(record).filter(({ offset }) => offset >= promptLength);
  return segments.map((segment) => ({
    kind: textOf(segment['kind']) ?? '',
    content: markedContent(textOf(segment['text']) ?? '', segment['kind'] === 'model' ? [] : images),
    tool_calls: [],
    ...thoughtsOf(segment),
  }));
}

function thoughtsOf({ reasoning }: Fields = {}): Pick<Part, 'reasoning'> {
  return typeof reasoning === 'string' && reasoning.trim() !== '' ? { reasoning } : {};
}

export function askedOf(record: Fields): Asked[] {
  return listOf(record['asked']).map((one) => {
    const call = fieldsOf(one);
    const { role, model, messages, text, ms, attempts, usage } = call;
    const { input_tokens: input, output_tokens: output } = fieldsOf(usage);
    return {
      role: textOf(role) ?? '',
      model: textOf(model) ?? '',
      messages: listOf(messages).map(messageOf),
      text: textOf(text) ?? '',
      ...thoughtsOf(call),
      ms: numberOf(ms) ?? 0,
      attempts: numberOf(attempts) ?? 1,
      input_tokens: numberOf(input) ?? 0,
      output_tokens: numberOf(output) ?? 0,
    };
  });
}

/** The text of the last message of the user, or of the last one. */
export function questionOf(prompt: readonly Message[]): string {
  const asked = prompt.findLast(({ role }) => role === 'user') ?? prompt.at(-1);
  return (asked?.content ?? []).map((part) => (part.type === 'text' ? part.text : IMAGE_MARK)).join('');
}

function messageOf(message: unknown): Message {
  const { role, content, parts, tool_calls: calls } = fieldsOf(message);
  const pieces = Array.isArray(parts) ? parts : Array.isArray(content) ? content : null;
  return {
    role: textOf(role) ?? '',
    content: pieces === null ? textContent(textOf(content) ?? '') : pieces.flatMap(contentOf),
    tool_calls: listOf(calls).map((call) => {
      const { id, name, arguments: given } = fieldsOf(call);
      return { id: textOf(id) ?? '', name: textOf(name) ?? '', arguments: textOf(given) ?? JSON.stringify(given ?? null) };
    }),
  };
}

function contentOf(part: unknown): Content[] {
  const { type, text, image, ...picture } = fieldsOf(part);
  if (type === 'text') return textContent(textOf(text) ?? '');
  if (type !== 'image') return [];
  return imageContent(image === undefined ? picture : fieldsOf(image));
}

function imageContent({ sha256, width, height }: Fields): Content[] {
  if (typeof sha256 !== 'string') return [];
  return [{ type: 'image', sha256, width: numberOf(width) ?? 0, height: numberOf(height) ?? 0 }];
}

function textContent(text: string): Content[] {
  return text === '' ? [] : [{ type: 'text', text }];
}

interface PlacedPicture {
  readonly offset: number;
  readonly content: Content[];
}

/** Images among the tokens, in order. */
function imagesOf(record: Fields): PlacedPicture[] {
  return listOf(record['images']).map((image) => ({ offset: numberOf(fieldsOf(image)['offset']) ?? 0, content: imageContent(fieldsOf(image)) }));
}

/** Text whose marks stand for images, which are taken from the beginning of the list. */
function markedContent(text: string, images: PlacedPicture[]): Content[] {
  if (images.length === 0) return textContent(text);
  return text.split(IMAGE_MARK).flatMap((piece, i, pieces) => {
    const isMarked = i < pieces.length - 1;
    return [...textContent(piece), ...(isMarked ? (images.shift()?.content ?? textContent(IMAGE_MARK)) : [])];
  });
}

const TURN = /<\|im_start\|>([a-z]+)\n([^]*?)(?:<\|im_end\|>\n?|$)/gy;

/** The messages of a prompt in ChatML; any other prompt is one message. A last turn that was only opened is left out. */
function chatMessages(text: string): { readonly role: string; readonly text: string }[] {
  const turns = [...text.matchAll(TURN)];
  const covered = turns.reduce((sum, [all]) => sum + all.length, 0);
  if (covered < text.length || turns.length === 0) return [{ role: 'prompt', text }];
  return turns.map(([, role, content]) => ({ role: role!, text: content! })).filter(({ text: content }, i) => content !== '' || i < turns.length - 1);
}
