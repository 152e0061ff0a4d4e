/** The Jinja library is checked against transformers: every published template, over conversations of all kinds, to the character. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ChatTemplate } from '../../src/tokenizer/chat-template.ts';
import { CHATML_TEMPLATE } from '../../src/tokenizer/chatml.ts';
import { PUBLISHED, TEMPLATES_FOLDER, published, templateSource } from './template-models.ts';

interface Golden {
  readonly variables: Readonly<Record<string, unknown>>;
  readonly conversations: Readonly<
    Record<
      string,
      {
        readonly messages: readonly Readonly<Record<string, unknown>>[];
        readonly tools?: readonly object[];
        readonly variables?: Readonly<Record<string, unknown>>;
      }
    >
  >;
  readonly texts: readonly {
    readonly template: string;
    readonly conversation: string;
    readonly add_generation_prompt: boolean;
    readonly text?: string;
    readonly refused?: string;
  }[];
}

const golden = JSON.parse(readFileSync(join(TEMPLATES_FOLDER, 'rendered.json'), 'utf8')) as Golden;

describe.each(PUBLISHED.map((template) => [template.file, template] as const))('ChatTemplate of %s', (file, template) => {
  const { bos_token, eos_token } = template;
  const own = ChatTemplate.of(templateSource(template), { bos_token, eos_token });
  const texts = golden.texts.filter((text) => text.template === file);

  it('is the file of the manifest', () => {
    expect(createHash('sha256').update(templateSource(template)).digest('hex')).toBe(template.sha256);
    expect(texts.length).toBe(2 * Object.keys(golden.conversations).length);
  });

  it.each(texts.map((text) => [text.conversation, text.add_generation_prompt, text] as const))(
    'renders or refuses "%s" as transformers does, generation prompt: %s',
    (name, addGenerationPrompt, { text = null, refused = '' }) => {
      const { messages, tools, variables: chosen = {} } = golden.conversations[name]!;
      const variables = { ...golden.variables, ...chosen, ...(tools === undefined ? {} : { tools }) };
      const rendered = outcomeOf(() => own.render(messages, { addGenerationPrompt, continueFinalMessage: false, variables }));
      expect(rendered.text).toBe(text);
      // What a template says itself is in both words; what Python says of an accident is not.
      expect(rendered.refused).toContain(/^TemplateError: (.*)/s.exec(refused)?.[1] ?? '');
    },
  );
});

function outcomeOf(render: () => string): { readonly text: string | null; readonly refused: string } {
  try {
    return { text: render(), refused: '' };
  } catch (error) {
    return { text: null, refused: (error as Error).message };
  }
}

interface Constructs {
  readonly messages: readonly Readonly<Record<string, unknown>>[];
  readonly variables: Readonly<Record<string, unknown>>;
  readonly texts: readonly { readonly template: string; readonly text?: string; readonly refused?: string }[];
}

const constructs = JSON.parse(readFileSync(join(TEMPLATES_FOLDER, 'constructs.json'), 'utf8')) as Constructs;

/** Constructs that no known template of a model uses; they are refused, with one that prints an address in Python's memory. */
const REFUSED_HERE: readonly string[] = [
  "{{ 'hello' | truncate(3) }}",
  "{{ 'a b' | urlencode }}",
  "{{ cycler('a', 'b').next() }}",
  "{{ joiner(', ')() }}",
  '{% with a = 1 %}{{ a }}{% endwith %}',
];
/** A method by itself prints its address in Python; integers beyond 2^53 and the sign of zero are JavaScript's; nobody asks for Jinja's filler text. */
const PRINTED_OTHERWISE: readonly string[] = ['{{ schema.items }}', '{{ 12345678901234567890 }}', '{{ -0.0 }}', '{{ lipsum is defined }}'];

describe('a construct of Python', () => {
  it.each(constructs.texts.filter(({ template }) => !PRINTED_OTHERWISE.includes(template)))(
    'is rendered or refused as transformers does: $template',
    ({ template, text = null }) => {
      const { messages, variables } = constructs;
      const { text: ours } = outcomeOf(() =>
        ChatTemplate.of(template, {}).render(messages, { addGenerationPrompt: false, continueFinalMessage: false, variables }),
      );
      expect(ours).toBe(REFUSED_HERE.includes(template) ? null : text);
    },
  );
});

describe('CHATML_TEMPLATE', () => {
  it('is the template that transformers was asked to render', () => {
    expect(templateSource(published('chatml'))).toBe(CHATML_TEMPLATE);
  });
});
