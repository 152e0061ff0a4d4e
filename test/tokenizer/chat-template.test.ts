import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { TokenizerError } from '../../src/tokenizer/tokenizer-error.ts';
import { ChatTemplate } from '../../src/tokenizer/chat-template.ts';
import { Folder } from '../../src/files/folder.ts';
import { temporaryFolder } from '../trainer/publisher/adapter-files.ts';

interface Golden {
  readonly chats: readonly {
    readonly messages: readonly Readonly<Record<string, unknown>>[];
    readonly variables: Readonly<Record<string, unknown>>;
    readonly add_generation_prompt: boolean;
    readonly continue_final_message: boolean;
    readonly text: string;
  }[];
}

const golden = JSON.parse(readFileSync(join(import.meta.dirname, '../golden/engine/tokenizer.json'), 'utf8')) as Golden;
const folder = temporaryFolder();
afterAll(() => folder.remove());
let count = 0;

async function templateOf(settings: Readonly<Record<string, unknown>>, file?: string): Promise<ChatTemplate> {
  const directory = join(folder.path, `c${count++}`);
  mkdirSync(directory);
  if (file !== undefined) writeFileSync(join(directory, 'chat_template.jinja'), file);
  return (await ChatTemplate.read(new Folder(directory), settings))!;
}

const chatml = readFileSync(join(import.meta.dirname, 'chatml.jinja'), 'utf8');
const plain = { addGenerationPrompt: false, continueFinalMessage: false, variables: {} };
const user = (content: unknown) => ({ role: 'user', content });

describe('ChatTemplate', () => {
  it.each(golden.chats.map((chat, i) => [i, chat] as const))('renders chat %i as transformers does', async (_, chat) => {
    const template = await templateOf({ pad_token: '<|endoftext|>' }, chatml);
    const options = { addGenerationPrompt: chat.add_generation_prompt, continueFinalMessage: chat.continue_final_message, variables: chat.variables };
    expect(template.render(chat.messages, options)).toBe(chat.text);
  });

  it('prefers the file to the settings, which hold a string, or several with a default', async () => {
    const named = [
      { name: 'rag', template: 'rag' },
      { name: 'default', template: 'default' },
      { name: 'tool_use', template: 'tools' },
    ];
    expect((await templateOf({ chat_template: 'settings' }, 'file')).render([user('')], plain)).toBe('file');
    expect((await templateOf({ chat_template: 'settings' })).render([user('')], plain)).toBe('settings');
    const several = await templateOf({ chat_template: named });
    expect(several.render([user('')], plain)).toBe('default');
    expect(several.render([user('')], { ...plain, variables: { tools: [{ name: 'x' }] } })).toBe('tools');
    expect(await templateOf({})).toBeNull();
  });

  it('takes the template for tools from the folder where transformers saves it', async () => {
    const directory = join(folder.path, 'additional');
    mkdirSync(join(directory, 'additional_chat_templates'), { recursive: true });
    writeFileSync(join(directory, 'chat_template.jinja'), 'file');
    writeFileSync(join(directory, 'additional_chat_templates/tool_use.jinja'), 'tools');
    const template = (await ChatTemplate.read(new Folder(directory), { chat_template: 'settings' }))!;
    const tools = [[], [{ name: 'x' }]].map((list) => template.render([user('')], { ...plain, variables: { tools: list } }));
    expect([template.render([user('')], plain), ...tools]).toEqual(['file', 'tools', 'tools']);
  });

  it('knows the named tokens, however they are spelled, and lets variables override them', async () => {
    const template = await templateOf({
      bos_token: { content: '<s>' },
      eos_token: '</s>',
      chat_template: '{{ bos_token }}{{ eos_token }}{{ extra }}{{ "?" if tools is none }}',
    });
    expect(template.render([user('')], { ...plain, variables: { extra: 1, eos_token: '!' } })).toBe('<s>!1?');
  });

  it('continues a message where the template trims it, repeats it, or gives it in blocks', async () => {
    const continued = { ...plain, continueFinalMessage: true };
    const repeats = await templateOf({ chat_template: '{{ messages[0].content }}|{% for m in messages %}[{{ m.content }}]{% endfor %}' });
    expect(repeats.render([user('yes'), { role: 'assistant', content: 'yes ' }], continued)).toBe('yes|[yes][yes ');
    const trims = await templateOf({ chat_template: '{% for m in messages %}[{{ m.content | trim }}]{% endfor %}' });
    expect(trims.render([user('a'), { role: 'assistant', content: 'b  ' }], continued)).toBe('[a][b');
    const blocks = await templateOf({ chat_template: '{% for b in messages[0].content %}({{ b.text }}){% endfor %}' });
    const content = [{ type: 'text', text: 'one' }, { type: 'text', text: 'two' }, { type: 'image' }];
    expect(blocks.render([user(content)], continued)).toBe('(one)(two');
    expect(content[1]).toEqual({ type: 'text', text: 'two' });
  });

  it.each<[string, string, Parameters<ChatTemplate['render']>, RegExp]>([
    [
      'what the template refuses',
      "{{ raise_exception('No system\nmessages') }}",
      [[user('')], plain],
      /^The model's chat template rejected the messages: .*No system messages/,
    ],
    ['a template that is broken', '{% if %}', [[user('')], plain], /^The chat template cannot be parsed: .*\. Correct the template\.$/],
    // Time that grows with the square of the length would be half an hour.
    ['a long template of tags without an end', '{{ '.repeat(200_000), [[user('')], plain], /^The chat template cannot be parsed: /],
    [
      'a template that computes nonsense',
      '{{ messages[0].content.nothing() }}',
      [[user('')], plain],
      /^The model's chat template rejected the messages/,
    ],
    [
      'to continue and to begin at once',
      'x',
      [[user('')], { ...plain, addGenerationPrompt: true, continueFinalMessage: true }],
      /add_generation_prompt and continue_final_message are both set/,
    ],
    ['to continue nothing', 'x', [[], { ...plain, continueFinalMessage: true }], /last message has no text to continue/],
    ['to continue what has no text', 'x', [[user(null)], { ...plain, continueFinalMessage: true }], /last message has no text to continue/],
    ['to continue what the template drops', 'x', [[user('gone')], { ...plain, continueFinalMessage: true }], /drops the last message/],
    [
      'to continue what the template changes',
      '{% for m in messages %}{{ m.content | upper }}CONTINUE_FINAL_MESSAGE_TAG {% endfor %}',
      [[user('gone')], { ...plain, continueFinalMessage: true }],
      /drops the last message or changes it/,
    ],
  ])('refuses %s in one line', async (_, chat_template, args, message) => {
    const template = await templateOf({ chat_template });
    const render = () => template.render(...args);
    expect(render).toThrow(TokenizerError);
    expect(render).toThrow(message);
  });

  it('refuses a list of templates without a default only when it is used', async () => {
    const template = await templateOf({ chat_template: [{ name: 'rag', template: 'x' }] });
    expect(() => template.render([user('')], plain)).toThrow(/chat templates are called rag/);
  });

  it('renders a template no more that loops without end for a short conversation', async () => {
    const chat_template = '{% for i in range(300) %}{% for j in range(300) %}{% endfor %}{% endfor %}{{ messages|length }}';
    const long = Array.from({ length: 1000 }, () => user('hi'));
    const template = await templateOf({ chat_template });
    expect(template.render(long, plain)).toBe('1000');
    expect(() => template.render([user('hi')], plain)).toThrow(/takes more than 25\d,\d+ steps/);
    expect(() => template.render(long, plain)).toThrow(/takes more than 25\d,\d+ steps/);
  });

  it('reads the file next to a real tokenizer', async () => {
    const directory = join(folder.path, 'real');
    mkdirSync(directory);
    copyFileSync(join(import.meta.dirname, 'chatml.jinja'), join(directory, 'chat_template.jinja'));
    const template = (await ChatTemplate.read(new Folder(directory), {}))!;
    expect(template.render([user('hi')], plain)).toBe('<|im_start|>user\nhi<|im_end|>\n');
    expect(() => template.render([{ role: 'pirate', content: 'x' }], plain)).toThrow(/Unknown role pirate/);
  });
});
