/** A rollout as a demonstration: the messages that a supervised run trains on (DDAI, `_messages_from_events_v1`). Pure. */
import { ConfigError } from '../core/errors.ts';
import { strip } from '../metrics/python-text.ts';
import type { MessageV1 } from '../schemas/messages-v1.ts';
import { completesSearch, NO_CROP, NO_SEARCH_RESULT } from './messages-v1.ts';
import type { TracedEvent, TracedRollout } from './traced-rollouts.ts';

export interface DemonstrationOptions {
  /** The text before the question. @default the messages of the trace */
  readonly systemPrompt?: string;
  /** A turn whose action does not follow its think, or has no usable content, drops the rollout. @default true */
  readonly strictActions?: boolean;
  /** Inserts a message that reports a tool's missing result; otherwise such a rollout is dropped. @default true */
  readonly missingResults?: boolean;
}

const ACTION_AFTER_THINK = /<\/think>\s*(?:<search>|<bbox>|<search_complete>)/iu;
const CLOSE_THINK = '</think>';
const END_TURN = '<|im_end|>';
const OPENINGS = ['<search>', '<bbox>', '<search_complete>'] as const;

/** The reasons why a rollout cannot become a demonstration, in words for the user. If there are several, the first counts. */
export const OBSTACLES = {
  question: 'the trace has no question',
  turn: 'a turn does not think and then act (<search>, <bbox> or <search_complete>)',
  result: 'a search or a box showed nothing',
  end: 'the policy does not complete the search',
} as const;
type Obstacle = keyof typeof OBSTACLES;

/** The messages of the rollout, or the reason why it is dropped. */
export function demonstration(rollout: TracedRollout, options: DemonstrationOptions): MessageV1[] | Obstacle {
  const question = questionOf(rollout.question);
  if (question === '') return 'question';
  const { systemPrompt: system } = options;
  const opening: readonly MessageV1[] | null = system === undefined ? rollout.opening : [message('system', system), message('user', question)];
  if (opening === null) throw new ConfigError('The trace has no prompts; give the system prompt');
  const writer = new DemonstrationWriter(opening, options);
  for (const event of rollout.events) {
    const obstacle = writer.add(event);
    if (obstacle !== null) return obstacle;
  }
  return writer.finish();
}

/** `{prompt}__s{index}__{end of the run's id}`, the uid of a rollout's demonstration. */
export function demonstrationId({ prompt, index, run }: TracedRollout): string {
  const suffix = run.split('_').at(-1)!;
  return suffix === '' ? `${prompt}__s${index}` : `${prompt}__s${index}__${suffix}`;
}

function message(role: MessageV1['role'], content: MessageV1['content']): MessageV1 {
  return { role, content };
}

/** The question without the chat's own words after it. */
function questionOf(text: string): string {
  const stripped = strip(text);
  for (let line = stripped.indexOf('\n'); line !== -1; line = stripped.indexOf('\n', line + 1)) {
    const rest = stripped.slice(line, line + 2000).trimStart();
    if (/^assistant(?![\p{L}\p{N}_])/iu.test(rest)) return strip(stripped.slice(0, line));
  }
  return stripped;
}

class DemonstrationWriter {
  readonly #messages: MessageV1[];
  readonly #shown = new Set<string>();
  readonly #isStrict: boolean;
  readonly #fillsGaps: boolean;
  #searches = 0;
  #boxes = 0;
  #isComplete = false;

  constructor(opening: readonly MessageV1[], { strictActions = true, missingResults = true }: DemonstrationOptions) {
    this.#messages = [...opening];
    this.#isStrict = strictActions;
    this.#fillsGaps = missingResults;
  }

  /** Null if the rollout can still be a demonstration. */
  add(event: TracedEvent): Obstacle | null {
    if (event.kind === 'turn') return this.#turn(event.text) ? null : 'turn';
    const isShown =
      event.kind === 'pages'
        ? this.#searches === 0 || this.#page(event.pictures, event.words)
        : this.#boxes === 0 || this.#crop(event.picture, event.words);
    return isShown ? null : 'result';
  }

  finish(): MessageV1[] | Obstacle {
    if (this.#fillsGaps) this.#reportMissing();
    if (this.#searches > 0 || this.#boxes > 0) return 'result';
    return this.#isComplete ? this.#messages : 'end';
  }

  #turn(raw: string): boolean {
    if (this.#fillsGaps) this.#reportMissing();
    const text = withoutEnd(raw);
    if (text === '') return true;
    const action = usableAction(text);
    if (this.#isStrict && (action === null || !ACTION_AFTER_THINK.test(text))) return false;
    if (action === '<search>') this.#searches += 1;
    if (action === '<bbox>') this.#boxes += 1;
    if (completesSearch(text)) this.#isComplete = true;
    this.#messages.push({ role: 'assistant', content: text });
    return true;
  }

  /** Chosen as in the environment: the first picture that was not shown yet, else the first. */
  #page(pictures: readonly (string | null)[] | null, words: string | undefined): boolean {
    // A search that found nothing was answered with words only.
    if (pictures === null && words !== undefined) {
      this.#messages.push(message('user', words));
      this.#searches -= 1;
      return true;
    }
    const found = pictures?.find((picture) => picture !== null && picture !== '' && !this.#shown.has(picture)) ?? pictures?.[0];
    if (found === undefined || found === null || found === '') return false;
    this.#shown.add(found);
    this.#messages.push(message('user', words ?? [{ image: found }]));
    this.#searches -= 1;
    return true;
  }

  #crop(picture: string | null, words: string | undefined): boolean {
    if (picture === null || picture === '') return false;
    this.#messages.push(message('user', words ?? [{ image: picture }]));
    this.#boxes -= 1;
    return true;
  }

  #reportMissing(): void {
    for (; this.#searches > 0; this.#searches--) this.#messages.push({ role: 'user', content: NO_SEARCH_RESULT });
    for (; this.#boxes > 0; this.#boxes--) this.#messages.push({ role: 'user', content: NO_CROP });
  }
}

/** The turn without the token that ended it. */
function withoutEnd(text: string): string {
  const stripped = strip(text);
  return stripped.endsWith(END_TURN) ? strip(stripped.slice(0, -END_TURN.length)) : stripped;
}

/** The first action after the first think, or of the text if there is no think, if its content can be used. */
function usableAction(text: string): (typeof OPENINGS)[number] | null {
  const lower = text.toLowerCase();
  const think = lower.indexOf(CLOSE_THINK);
  const first = firstOpening(think === -1 ? lower : lower.slice(think + CLOSE_THINK.length)) ?? firstOpening(lower);
  if (first === '<search>') return strip(/<search>(.*?)<\/search>/isu.exec(text)?.[1] ?? '') === '' ? null : first;
  if (first === '<bbox>') return hasFourNumbers(/<bbox>\s*\[(.*?)\]\s*<\/bbox>/isu.exec(text)?.[1]) ? first : null;
  if (first === '<search_complete>') return /<search_complete>(.*?)<\/search_complete>/isu.test(text) ? first : null;
  return null;
}

function firstOpening(text: string): (typeof OPENINGS)[number] | null {
  const found = OPENINGS.flatMap((tag) => {
    const at = text.indexOf(tag);
    return at === -1 ? [] : [{ tag, at }];
  }).toSorted((a, b) => a.at - b.at)[0];
  return found?.tag ?? null;
}

function hasFourNumbers(list: string | undefined): boolean {
  const parts = list?.split(',') ?? [];
  return (
    parts.length === 4 &&
    parts.every(
      (part) =>
        /^[+-]?(?:\d+(?:_\d+)*(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i.test(strip(part)) && Number.isFinite(Number(strip(part).replaceAll('_', ''))),
    )
  );
}
