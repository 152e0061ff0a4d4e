/** A chat message as OpenAI-compatible servers read it; the only vocabulary prompts are written in. */

export type Role = 'system' | 'user' | 'assistant' | 'tool';

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** The arguments exactly as the model wrote them: JSON when it behaves, any text when it does not. */
  readonly arguments: string;
}

/** An image by its content: the bytes are in an `ImageStore`. */
export interface ImageRef {
  /** Hex digest of the bytes. */
  readonly sha256: string;
  /** `image/png`, `image/jpeg`, ... */
  readonly mediaType: string;
  /** Pixels. */
  readonly width: number;
  readonly height: number;
}

/** Where the bytes of images are kept. The same bytes give the same reference. */
export interface ImageStore {
  put(bytes: Uint8Array, image: Omit<ImageRef, 'sha256'>): Promise<ImageRef>;
  /** Rejects with ConfigError when the store has no such image. */
  get(image: ImageRef): Promise<Uint8Array>;
}

export type ContentPart = { readonly type: 'text'; readonly text: string } | { readonly type: 'image'; readonly image: ImageRef };

export type MessageContent = string | readonly ContentPart[];

export interface Message {
  readonly role: Role;
  readonly content: MessageContent;
  readonly toolCalls?: readonly ToolCall[];
  /** On a `tool` message: the call it answers. */
  readonly toolCallId?: string;
}

/** The text of a message's content; parts that are no text are left out. */
export function contentText(content: MessageContent): string {
  if (typeof content === 'string') return content;
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

/** The images of a message's content, in order. */
export function contentImages(content: MessageContent): readonly ImageRef[] {
  return typeof content === 'string' ? [] : content.flatMap((part) => (part.type === 'image' ? [part.image] : []));
}
