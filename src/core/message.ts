/** A chat message as OpenAI-compatible servers read it; the only vocabulary prompts are written in. */

export type Role = 'system' | 'user' | 'assistant' | 'tool';

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** The arguments exactly as the model wrote them: JSON when it behaves, any text when it does not. */
  readonly arguments: string;
}

export interface Message {
  readonly role: Role;
  readonly content: string;
  readonly toolCalls?: readonly ToolCall[];
  /** On a `tool` message: the call it answers. */
  readonly toolCallId?: string;
}
