/** Chat messages in the form of OpenAI-compatible APIs; all prompts consist of them. */

export type Role = 'system' | 'user' | 'assistant' | 'tool';

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** The arguments exactly as the model wrote them: normally JSON, but possibly any text. */
  readonly arguments: string;
  /** Why the call could not be read; `name` (possibly empty) and `arguments` are then what could be read of it. For the record: no template and no server gets it. @default it could be read */
  readonly malformed?: string;
  /** Further fields of the call in the server's answer, by their names there; they go back to it unchanged. @default none */
  readonly serverFields?: Readonly<Record<string, unknown>>;
}

/** A reference to an image by its content; an `ImageStore` has the bytes. */
export interface ImageRef {
  /** Hex digest of the bytes. */
  readonly sha256: string;
  /** `image/png`, `image/jpeg`, ... */
  readonly mediaType: string;
  /** In pixels, like `height`. */
  readonly width: number;
  readonly height: number;
}

/** An image in a sequence of tokens. */
export interface PlacedImage extends ImageRef {
  /** Index of its first token. */
  readonly offset: number;
  /** Number of its tokens. */
  readonly length: number;
}

/** Token ids of rendered text and images. */
export interface RenderedTokens {
  readonly ids: Int32Array;
  /** The images among the ids, in order; empty for text alone. */
  readonly images: readonly PlacedImage[];
  /** Text at the end of the ids that the template wrote into the policy's turn, behind its header: `<think>\n`. @default none */
  readonly opening?: string;
}

/** Stands for an image in recorded text. */
export const IMAGE_MARK = '<image>';

/** Stores the bytes of images. The same bytes give the same reference. */
export interface ImageStore {
  /** `image`: the type and size of these bytes; width and height are pixels. Rejects with ConfigError for a type that is not PNG, JPEG or WebP. */
  put(bytes: Uint8Array, image: Omit<ImageRef, 'sha256'>): Promise<ImageRef>;
  /** Rejects with ConfigError if the store has no such image. */
  get(image: ImageRef): Promise<Uint8Array>;
}

export type ContentPart = { readonly type: 'text'; readonly text: string } | { readonly type: 'image'; readonly image: ImageRef };

export type MessageContent = string | readonly ContentPart[];

/** A message of a conversation, as chat APIs have them, in camelCase. */
export interface Message {
  readonly role: Role;
  readonly content: MessageContent;
  /** On an `assistant` message: its native tool calls. */
  readonly toolCalls?: readonly ToolCall[];
  /** On a `tool` message: the id of the call it answers. */
  readonly toolCallId?: string;
  /**
   * On an `assistant` message: further fields of the server's answer, by their names there (`reasoning_content`, signatures of thoughts). They go back to a chat API
   * unchanged; a chat template gets the thoughts alone. @default none
   */
  readonly serverFields?: Readonly<Record<string, unknown>>;
}

/**
 * The text of a message's content, joined without separators; images are left out.
 * @example contentText([{ type: 'text', text: 'Who?' }, { type: 'image', image }]) // 'Who?'
 */
export function contentText(content: MessageContent): string {
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

/** The text of a message's content, with a mark for each image. */
export function markedText(content: MessageContent): string {
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : IMAGE_MARK)).join('');
}

/** The images of a message's content, in order. */
export function contentImages(content: MessageContent): readonly ImageRef[] {
  return typeof content === 'string' ? [] : content.flatMap((part) => (part.type === 'image' ? [part.image] : []));
}

/** The messages with their text alone. */
export function withoutImages(messages: readonly Message[]): readonly Message[] {
  return messages.map((message) => ({ ...message, content: contentText(message.content) }));
}
