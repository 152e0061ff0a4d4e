"""The texts of the environment visual-rag that the model is taught with; test/recipes/vlm compares them with the environment's."""

END_OF_TURN, START_OF_TURN, PAD = "<|im_end|>", "<|im_start|>", "<|endoftext|>"
VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD = "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"
SPECIAL_TOKENS = [PAD, START_OF_TURN, END_OF_TURN, VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD]
TAGS = [f"<{slash}{name}>" for name in ("think", "search", "bbox", "search_complete") for slash in ("", "/")]

SYSTEM = (
    "You collect evidence for a question from a collection of document pages. Another model answers the question from the pages and crops that you collected; you do not answer it yourself.\n"
    "Write every turn in this form: first your reasoning inside <think> and </think>, then exactly one action on a new line.\n"
    "- <search>query</search> finds pages. You then see a picture of a page. Each search shows one page that you have not seen yet.\n"
    "- <bbox>[x1, y1, x2, y2]</bbox> cuts a part out of the page that you saw last. The numbers are pixels of the page as it was shown to you, from its top left corner, with x1 < x2 and y1 < y2. "
    "You then see this part of the page enlarged.\n"
    "- <search_complete>true</search_complete> ends your work, once the evidence is enough to answer."
)
# The part of a prompt that does not depend on the question.
PROMPT_HEAD = f"{START_OF_TURN}system\n{SYSTEM}{END_OF_TURN}\n{START_OF_TURN}user\n"
NEXT_REPLY = f"{END_OF_TURN}\n{START_OF_TURN}assistant\n"
# The text before and after a picture that the environment shows.
OBSERVATION_HEAD = f"\n{START_OF_TURN}user\n"

# The text after a turn without a usable action. The model is not taught it, but its words are tokens.
INVALID_ACTION = (
    "Your previous action is invalid. You must conduct reasoning inside <think> and </think> every time you get new information. "
    "After reasoning, if you find you lack some knowledge, you can call a search engine using <search> query </search> and the user will return the search results. "
    "Whenever you retrieve an image, you may crop it for a clearer view using <bbox>[x1, y1, x2, y2]</bbox>. You can search as many times as you want. "
    "If you determine that no further external knowledge is needed, you must finish with <search_complete>true</search_complete>. "
    "Otherwise, continue with <search> or <bbox> actions until you are ready to finish. Please try again.\n"
)
NO_PAGE = "Invalid action: No image to crop. Please search first.\n"
INVALID_BOX = (
    "Your previous bbox is invalid.\n"
    "- Expected one line: <bbox>[x1, y1, x2, y2]</bbox>\n"
    "- Pixel coordinates, origin at top-left (0,0), x to the right, y downward\n"
    "- Must satisfy: 0 <= x1 < x2 <= image_width, 0 <= y1 < y2 <= image_height (positive area)\n"
    "- If x1 >= x2 or y1 >= y2, the bbox will be rejected.\n"
    "Please output a valid bbox now.\n"
)
CORRECTIONS = [INVALID_ACTION, NO_PAGE, INVALID_BOX]


def question(colour, title):
    return f"Which number is in the {colour} square on the page {title}?"


def asked(colour, title):
    """The prompt after its head."""
    return f"Question: {question(colour, title)}{NEXT_REPLY}"


def search_turn(thought, query):
    return f"<think>{thought}</think>\n<search>{query}</search>"


def box_turn(thought, box):
    return f"<think>{thought}</think>\n<bbox>[{', '.join(map(str, box))}]</bbox>"


def complete_turn(thought):
    return f"<think>{thought}</think>\n<search_complete>true</search_complete>"
