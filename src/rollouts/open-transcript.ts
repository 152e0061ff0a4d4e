import type { PolicyLease } from '../clients/policy-client.ts';
import { ChatTranscript } from './chat-transcript.ts';
import { ContinuationTranscript, CutTranscript } from './continuation-transcript.ts';
import { ConversationTranscript } from './conversation-transcript.ts';
import type { Transcript, TranscriptOptions } from './transcript.ts';

/** The transcript for this policy and turn format, with the first prompt rendered. */
export async function openTranscript(lease: PolicyLease, options: TranscriptOptions): Promise<Transcript> {
  if (lease.kind === 'chat') return new ChatTranscript(lease, options);
  if (options.turnFormat === 'chat') return ConversationTranscript.open(lease, options);
  return options.overlong === 'upstream' ? CutTranscript.open(lease, options) : ContinuationTranscript.open(lease, options);
}
