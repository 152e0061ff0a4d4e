/**
 * The filter of system calls for a sandbox of namespaces, as a program of the kernel's seccomp. It refuses memory that no limit of a process counts (shared
 * segments, files in memory, queues, larger buffers of sockets), calls that a Python program does not need and that had faults in kernels, and every socket but local
 * ones: AF_VSOCK reaches the host of a virtual machine, and connections over the namespace's own loopback hold gigabytes in the kernel. A program that asks a server
 * gets sockets of the internet and their options.
 */

interface Architecture {
  /** AUDIT_ARCH of linux/audit.h. */
  readonly audit: number;
  readonly refused: readonly number[];
  /** Refused to a program without a server. */
  readonly setsockopt: number;
  /** socket and socketpair. */
  readonly sockets: readonly [number, number];
  /** The first number of a second table for the same calls. */
  readonly otherTable: number | null;
}

// shmget, msgget, memfd_create, memfd_secret, io_uring_setup, userfaultfd, bpf, perf_event_open, add_key, request_key, keyctl
const ARCHITECTURES: Readonly<Partial<Record<NodeJS.Architecture, Architecture>>> = {
  x64: {
    audit: 0xc000003e,
    refused: [29, 68, 319, 447, 425, 323, 321, 298, 248, 249, 250],
    setsockopt: 54,
    sockets: [41, 53],
    otherTable: 0x40000000,
  },
  arm64: {
    audit: 0xc00000b7,
    refused: [194, 186, 279, 447, 425, 282, 280, 241, 217, 218, 219],
    setsockopt: 208,
    sockets: [198, 199],
    otherTable: null,
  },
};

const LOAD_WORD = 0x20;
const JUMP_EQUAL = 0x15;
const JUMP_AT_LEAST = 0x35;
const RETURN = 0x06;
const ALLOW = 0x7fff0000;
/** With the error EPERM. */
const REFUSE = 0x00050001;
/** AF_UNIX, which asyncio and multiprocessing need. */
const LOCAL = [1] as const;
/** And AF_INET, AF_INET6. */
const INTERNET = [1, 2, 10] as const;
const NUMBER_AT = 0;
const ARCHITECTURE_AT = 4;
/** The lower half of the first argument, which is all that the kernel reads of a family. */
const FAMILY_AT = 16;

/**
 * Instructions of eight bytes, little-endian; null for an architecture whose numbers are not known here.
 * @param asksServers the program may open connections
 */
export function systemCallFilter(architecture: NodeJS.Architecture, asksServers = false): Uint8Array | null {
  const known = ARCHITECTURES[architecture];
  if (known === undefined) return null;
  const { audit, setsockopt, sockets, otherTable } = known;
  const families = asksServers ? INTERNET : LOCAL;
  const refused = asksServers ? known.refused : [...known.refused, setsockopt];
  const tests = [...(otherTable === null ? [] : [[JUMP_AT_LEAST, otherTable] as const]), ...refused.map((call) => [JUMP_EQUAL, call] as const)];
  const asked = tests.length + sockets.length;
  // Jumps count the instructions that they leave out. Behind the tests and the questions for a socket: the permission, the load and the tests of a family, the refusal.
  const toRefusal = (from: number) => asked + 1 + families.length - from;
  const program = [
    [LOAD_WORD, 0, 0, ARCHITECTURE_AT],
    // Calls of another architecture have other numbers.
    [JUMP_EQUAL, 0, toRefusal(-2), audit],
    [LOAD_WORD, 0, 0, NUMBER_AT],
    ...tests.map(([jump, value], i) => [jump, toRefusal(i), 0, value]),
    ...sockets.map((call, i) => [JUMP_EQUAL, sockets.length - i, 0, call]),
    [RETURN, 0, 0, ALLOW],
    [LOAD_WORD, 0, 0, FAMILY_AT],
    ...families.map((family, i) => [JUMP_EQUAL, families.length - i, 0, family]),
    [RETURN, 0, 0, REFUSE],
    [RETURN, 0, 0, ALLOW],
  ] as const;
  const bytes = Buffer.alloc(8 * program.length);
  for (const [i, [code, then, otherwise, value]] of program.entries()) {
    bytes.writeUInt16LE(code, 8 * i);
    bytes.writeUInt8(then, 8 * i + 2);
    bytes.writeUInt8(otherwise, 8 * i + 3);
    bytes.writeUInt32LE(value, 8 * i + 4);
  }
  return bytes;
}
