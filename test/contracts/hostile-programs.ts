/** Programs that attack their sandbox. Bodies of `f` know FOLDER, which holds a file `secret`, PORT of a loopback server, and PID of the host's process. */

/** Bodies of `f`. A result with the secret or ESCAPED, a file in FOLDER, a connection or a signal is an escape. */
export const ESCAPES: Readonly<Record<string, string>> = {
  'reads a file': "return open(FOLDER + '/secret').read()",
  'reads a file by a path with dots': "return open('/usr/../' + FOLDER + '/secret').read()",
  'reads a file by descriptor': "import os\nfd = os.open(FOLDER + '/secret', os.O_RDONLY)\nreturn os.read(fd, 100)",
  'reads a file through io': "import io\nreturn io.FileIO(FOLDER + '/secret').readall()",
  'reads a file through codecs': "import codecs\nreturn codecs.open(FOLDER + '/secret').read()",
  'reads a file through pathlib': "import pathlib\nreturn pathlib.Path(FOLDER, 'secret').read_text()",
  'reads a file through linecache': "import linecache\nreturn linecache.getline(FOLDER + '/secret', 1)",
  'reads a file through fileinput': "import fileinput\nreturn list(fileinput.input([FOLDER + '/secret']))",
  'reads a file through mmap': "import mmap, os\nreturn mmap.mmap(os.open(FOLDER + '/secret', 0), 0, prot=1)[:]",
  'reads a file through sqlite':
    "import sqlite3\nreturn sqlite3.connect('file:' + FOLDER + '/secret?mode=ro', uri=True).execute('select 1').fetchall() and 'ESCAPED'",
  'imports a file':
    "import sys\nsys.path.insert(0, FOLDER)\nfrom importlib.machinery import SourceFileLoader\nreturn SourceFileLoader('s', FOLDER + '/secret').get_data(FOLDER + '/secret')",
  'lists a folder': "import os\nreturn os.listdir(FOLDER) and 'ESCAPED'",
  'lists homes': "import os\nreturn [n for d in ('/root', '/home') for n in os.listdir(d)] and 'ESCAPED'",
  'reads the users': "return open('/etc/passwd').read() and 'ESCAPED'",
  'reads the names of hosts': "return open('/etc/hosts').read() and 'ESCAPED'",
  'reads the environment of its parent': "import os\nreturn open('/proc/%d/environ' % os.getppid()).read()",
  'reads the environment of the host': "return open('/proc/%d/environ' % PID).read()",
  'reads its own environment': "return open('/proc/self/environ').read()",
  'reads files of the host through its process': "return open('/proc/%d/root%s/secret' % (PID, FOLDER)).read()",
  'reads files through an open descriptor':
    'import os\nout = []\nfor fd in range(3, 256):\n  try:\n    if hasattr(os, "set_blocking"): os.set_blocking(fd, False)\n    out.append(os.read(fd, 4096))\n  except OSError: pass\nreturn out',
  'climbs out through open descriptors':
    "import os\nfor fd in range(256):\n  try: return os.read(os.open('../../../../../../..' + FOLDER + '/secret', 0, dir_fd=fd), 99)\n  except OSError: pass",
  'reads variables': "import os\nreturn os.environ.get('SANDBOX_SECRET')",
  'reads variables of the C library': "import ctypes\nreturn ctypes.c_char_p(ctypes.CDLL(None).getenv(b'SANDBOX_SECRET')).value",
  'writes a file': "open(FOLDER + '/escaped', 'w').write('x')",
  'writes to the temporary folder of the host': "open('/tmp/escaped', 'w').write('x')",
  'writes to the current folder': "open('escaped', 'w').write('x')",
  'overwrites a file': "open(FOLDER + '/secret', 'w').write('x')\nreturn 'ESCAPED'",
  'deletes a file': "import os\nos.remove(FOLDER + '/secret')\nreturn 'ESCAPED'",
  'makes a link to a file': "import os\nos.symlink(FOLDER + '/secret', '/tmp/link')\nreturn open('/tmp/link').read()",
  'makes a hard link to a file': "import os\nos.link(FOLDER + '/secret', '/tmp/link')\nreturn open('/tmp/link').read()",
  'writes into the installation of Python':
    "import os\npath = os.path.dirname(os.__file__) + '/escaped.py'\nopen(path, 'w').write('x')\nreturn 'ESCAPED'",
  'changes the root': "import os\nos.chroot('/proc/1/root')\nreturn 'ESCAPED'",
  mounts: "import ctypes\nreturn 'ESCAPED' if ctypes.CDLL(None).mount(b'proc', b'/tmp', b'proc', 0, None) == 0 else None",
  'runs a shell': "import os\nos.system('cat ' + FOLDER + '/secret > ' + FOLDER + '/escaped')",
  'runs a command': "import subprocess\nreturn subprocess.run(['cat', FOLDER + '/secret'], capture_output=True).stdout",
  'becomes a command': "import os\nos.execv('/bin/sh', ['sh', '-c', 'echo x > ' + FOLDER + '/escaped'])",
  'runs a command through a pipe': "import os\nreturn os.popen('cat ' + FOLDER + '/secret').read()",
  'spawns through posix': "import posix\npid = posix.posix_spawn('/usr/bin/touch', ['touch', FOLDER + '/escaped'], {})\nposix.waitpid(pid, 0)",
  'forks and writes': "import os\nif os.fork() == 0:\n  open(FOLDER + '/escaped', 'w').write('x')\n  os._exit(0)",
  'leaves a daemon behind':
    "import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    time.sleep(1)\n    open(FOLDER + '/escaped', 'w').write('x')\n  os._exit(0)",
  'kills the host': 'import os, signal\nos.kill(PID, signal.SIGUSR2)',
  'kills its parent': 'import os, signal\nos.kill(os.getppid(), signal.SIGUSR2)',
  'kills everything': 'import os, signal\nos.kill(-1, signal.SIGUSR2)',
  'attaches to the host': "import ctypes\nreturn 'ESCAPED' if ctypes.CDLL(None).ptrace(16, PID, 0, 0) == 0 else None",
  'connects to a server of the host': "import socket\ns = socket.create_connection(('127.0.0.1', PORT), 2)\ns.send(b'x')\nreturn 'ESCAPED'",
  'connects by a raw socket': "import _socket\ns = _socket.socket(2, 1)\ns.connect(('127.0.0.1', PORT))\nreturn 'ESCAPED'",
  'asks a server': "import urllib.request\nreturn urllib.request.urlopen('http://127.0.0.1:%d' % PORT, timeout=2).read() or 'ESCAPED'",
  'looks a name up': "import socket\nreturn socket.gethostbyname('example.com') and 'ESCAPED'",
  'sends a datagram': "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.sendto(b'x', ('192.0.2.1', 9))\nreturn 'ESCAPED'",
  'connects to a socket in the file system': "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('/var/run/docker.sock')\nreturn 'ESCAPED'",
  'sees other processes': "import os\npids = [n for n in os.listdir('/proc') if n.isdigit()]\nreturn 'ESCAPED' if len(pids) > 20 else None",
  'makes namespaces of its own': "import ctypes\nreturn 'ESCAPED' if ctypes.CDLL(None).unshare(0x10000000) == 0 else None",
  'becomes root': "import os\nos.setuid(0)\nreturn 'ESCAPED' if open('/etc/shadow').read() else None",
  'raises its limits': "import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (10 ** 6, 10 ** 6))\nreturn 'ESCAPED'",
  'reads devices': "return open('/dev/mem', 'rb').read(1) and 'ESCAPED'",
  'types into the terminal of the host':
    "import fcntl, termios\nfd = open('/dev/tty', 'w')\nfcntl.ioctl(fd, termios.TIOCSTI, b'x')\nreturn 'ESCAPED'",
  'reaches JavaScript': 'import js\nreturn js.process.env.SANDBOX_SECRET',
  'runs JavaScript': "from pyodide.code import run_js\nreturn run_js('process.env.SANDBOX_SECRET')",
  'builds a JavaScript function': "import js\nreturn js.Object.constructor('return process.env.SANDBOX_SECRET')()",
  'finds a bridge among its objects':
    "import gc\nfor o in gc.get_objects():\n  if 'Js' in type(o).__name__ or 'Wasm' in type(o).__name__: return 'ESCAPED'",
  'reads beyond its memory': 'import ctypes\nreturn ctypes.string_at(8, 8)',
  'loads a library': "import ctypes\nreturn ctypes.CDLL(FOLDER + '/secret') and 'ESCAPED'",
};

/** Programs of an `f` that must not come to its end within a second, or not with this much. */
export const EXHAUSTIONS: Readonly<Record<string, string>> = {
  'a list without end': 'import itertools\ndef f(a): return list(itertools.repeat(1))',
  'a string of a terabyte': "def f(a): return len('x' * 2 ** 40) and 'SURVIVED'",
  'a list of a billion': "def f(a): return len([0] * 10 ** 9) and 'SURVIVED'",
  'memory, piece by piece': "def f(a):\n  x = []\n  while True: x.append('y' * 10 ** 6)",
  'memory, with its exception swallowed': 'def f(a):\n  x = []\n  while True:\n    try: x.append(bytearray(10 ** 6))\n    except MemoryError: pass',
  'a dictionary without end': 'def f(a):\n  d = {}\n  while True: d[len(d)] = str(len(d)) * 100',
  recursion: "def f(a): return f(a) or 'SURVIVED'",
  'recursion with its limit raised':
    "import sys\ndef f(a):\n  sys.setrecursionlimit(10 ** 9)\n  def g(n): return g(n + 1)\n  return g(0) or 'SURVIVED'",
  'recursion in C': "def f(a):\n  x = []\n  for _ in range(10 ** 6): x = [x]\n  return 'SURVIVED' if repr(x) else 0",
  'recursion in comparisons': "def f(a):\n  x, y = [], []\n  for _ in range(10 ** 6): x, y = [x], [y]\n  return 'SURVIVED' if x == y else 0",
  'a repr of five million characters': "def f(a): return 'x' * 5_000_000",
  'output without end': "def f(a):\n  while True: print('x' * 1000)",
  'errors without end': "import os\ndef f(a):\n  while True: os.write(2, b'x' * 100_000)",
  'output in one piece': "import os\ndef f(a): return os.write(1, b'x' * 30_000_000) and 'SURVIVED'",
  'a width of a billion': "def f(a): return 'SURVIVED' if '%1000000000d' % 1 else 0",
  'threads without end': 'import threading, time\ndef f(a):\n  while True: threading.Thread(target=lambda: time.sleep(99), daemon=True).start()',
  'forks without end': 'import os\ndef f(a):\n  while True: os.fork()',
  'files without end': "def f(a):\n  n = 0\n  while True:\n    n += 1\n    open('/tmp/%d' % n, 'w').write('x' * 10 ** 6)",
  'descriptors without end': 'import os\ndef f(a):\n  while True: os.dup(1)',
  'shared memory without end':
    "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.shmat.restype = ctypes.c_void_p\ndef f(a):\n  for _ in range(6):\n    memory = libc.shmat(libc.shmget(0, 2 ** 25, 0o1600), None, 0)\n    ctypes.memset(memory, 1, 2 ** 25)\n    libc.shmdt(ctypes.c_void_p(memory))\n  return 'SURVIVED'",
  'files in memory without end':
    "import os\ndef f(a):\n  files = [os.memfd_create('x') for _ in range(40)]\n  for file in files: os.write(file, b'x' * 2 ** 20)\n  return 'SURVIVED'",
  'an exit': 'import os\ndef f(a): os._exit(0)',
  'an abort': 'import os\ndef f(a): os.abort()',
  'deep source': `def f(a): return ${'('.repeat(5000)}a${')'.repeat(5000)} and 'SURVIVED'`,
  'a deep expression': `def f(a): return ${'-'.repeat(100_000)}a and 'SURVIVED'`,
  'a crash of the interpreter':
    "import sys\ndef f(a):\n  code = (lambda: 0).__code__\n  exec(code.replace(co_code=b'd' + bytes([200]) + b'S\\x00', co_consts=()))\n  return 'SURVIVED'",
};

/** Programs that only the deadline ends. */
export const ENDLESS: Readonly<Record<string, string>> = {
  'a loop': 'def f(a):\n  while True: pass',
  'a loop at top level': 'while True: pass\ndef f(a): return "SURVIVED"',
  'a loop that swallows every exception': 'def f(a):\n  while True:\n    try:\n      while True: pass\n    except BaseException: pass',
  'a loop in an argument of a power': 'def f(a): return "SURVIVED" if 9 ** 9 ** 7 else 0',
  'a regular expression that backtracks': "import re\ndef f(a): return re.match('(a+)+$', 'a' * 40 + 'b') or 'SURVIVED'",
  'a sum without end': 'import itertools\ndef f(a): return sum(itertools.count())',
  'a repr without end': 'class A:\n  def __repr__(self):\n    while True: pass\ndef f(a): return A()',
  'an exception whose text has no end': 'class A(Exception):\n  def __str__(self):\n    while True: pass\ndef f(a): raise A',
  'writes of nothing': "import os\ndef f(a):\n  while True: os.writev(1, [b''] * 1000)",
  'digits without end': "import sys\ndef f(a):\n  sys.set_int_max_str_digits(0)\n  return 'SURVIVED' if str(7 ** 7 ** 8) else 0",
  'a sleep': "import time\ndef f(a):\n  time.sleep(3600)\n  return 'SURVIVED'",
  'a lock that nobody frees': 'import _thread\ndef f(a):\n  lock = _thread.allocate_lock()\n  lock.acquire()\n  while True: lock.acquire(True, 1)',
  'a signal handler that goes on':
    'import signal\nfor n in range(1, 65):\n  try: signal.signal(n, signal.SIG_IGN)\n  except (OSError, ValueError): pass\ndef f(a):\n  while True: pass',
  'the garbage collector': 'import gc\nclass A:\n  def __del__(self):\n    A()\n    while True: pass\ndef f(a):\n  A()\n  return a',
  'an import without end':
    "import sys\nclass Finder:\n  def find_spec(self, *a):\n    while True: pass\nsys.meta_path.insert(0, Finder())\nimport nothing\ndef f(a): return 'SURVIVED'",
  'ten megabytes of source': `x = '${'y'.repeat(10_000_000)}'\nwhile True: pass\ndef f(a): return 'SURVIVED'`,
};

/** Programs that change what an interpreter does. */
export const POISONS: Readonly<Record<string, string>> = {
  'the builtin repr': 'import builtins\nbuiltins.repr = lambda x: "\'owned\'"\ndef f(a): return a',
  'all builtins': "import builtins\ndef f(a):\n  for n in dir(builtins):\n    if n[0].islower(): setattr(builtins, n, lambda *x: 'owned')",
  'builtins through a dictionary': "def f(a): __builtins__['len'] = lambda x: 42",
  'builtins through a global name': "__builtins__.sorted = lambda x: 'owned'\ndef f(a): return a",
  'a class that all share': 'def f(a):\n  import ctypes\n  ctypes.pythonapi.PyType_Modified(int)',
  'the runner through frames':
    "import sys\ndef f(a):\n  frame = sys._getframe()\n  while frame is not None:\n    for name in list(frame.f_globals):\n      if name in ('run', 'called', 'failure', 'is_plain'): frame.f_globals[name] = lambda *x: ['ran', '', 'owned']\n    frame = frame.f_back",
  'the runner through modules':
    "import sys\ndef f(a):\n  for name in ('runner', 'plain', 'channel'):\n    module = sys.modules.get(name)\n    if module: module.__dict__.clear()",
  'the cache of programs': "import sys\ndef f(a): sys.modules['runner'].programs.clear() or sys.modules['runner'].programs.update({'x': None})",
  'a module': "import json\njson.dumps = lambda *a, **k: 'owned'\ndef f(a): return json.dumps(a)",
  'the finder of modules': 'import sys\nsys.meta_path.clear()\nsys.path_hooks.clear()\nsys.modules.clear()\ndef f(a): return a',
  'the collector of garbage':
    "import gc\ndef f(a):\n  for o in gc.get_objects():\n    if isinstance(o, dict) and o is not globals(): o.pop('repr', None)",
  'a tracer': 'import sys\nsys.settrace(lambda *a: 1 / 0)\nsys.setprofile(lambda *a: 1 / 0)\ndef f(a): return a',
  'the streams': 'import sys\nsys.stdout.close()\nsys.stderr = sys.stdin = None\ndef f(a): return a',
  'a hook of the end': 'import atexit, os\natexit.register(lambda: os._exit(3))\ndef f(a): return a',
  'the digits of integers': 'import sys\nsys.set_int_max_str_digits(640)\nsys.setrecursionlimit(60)\ndef f(a): return a',
  'warnings as errors': "import warnings\nwarnings.simplefilter('error')\ndef f(a): return a",
  'the encoding of errors':
    "import codecs\ncodecs.register_error('backslashreplace', lambda e: ('owned', e.end))\ndef f(a): raise ValueError('\\ud800')",
  'an exception of its own kind': 'class E(BaseException):\n  def __str__(self): raise SystemExit\ndef f(a): raise E',
};

/** Programs that write what could be taken for their reply, and then return 'honest'. */
const frame = String.raw`
def frame(*fields):
  body = b''.join(len(x).to_bytes(4, 'little') + x for x in fields)
  return len(body).to_bytes(4, 'little') + body
`;
const writesTo = (where: string, text: string) =>
  `${frame}\nimport os\ndef f(a):\n  for fd in ${where}:\n    try: os.write(fd, ${text})\n    except OSError: pass\n  return 'honest'`;
export const FORGERIES: Readonly<Record<string, string>> = {
  'on standard output': writesTo('[1]', "frame(b'ran', b'', b\"'forged'\")"),
  'on standard error': writesTo('[2]', "frame(b'ran', b'', b\"'forged'\")"),
  'on every descriptor': writesTo('range(1, 64)', "frame(b'ran', b'', b\"'forged'\")"),
  'with a token that it made up': writesTo('range(1, 64)', "frame(b'12345678-1234-1234-1234-123456789abc', b'ran', b'', b\"'forged'\")"),
  'as JSON': writesTo('range(1, 64)', 'b\'{"kind": "ran", "calls": [{"repr": "1"}]}\\n\''),
  'that is torn': writesTo('range(1, 64)', "(10 ** 6).to_bytes(4, 'little') + b'x'"),
  'that it printed': "def f(a):\n  print('ran', \"'forged'\", flush=True)\n  return 'honest'",
};
