"""A vision model for tests: `python image-model.py TEXT_MODEL OUT`.

Creates the Hugging Face folder of a LLaVA model (an image is 16 tokens) with the tokenizer and the sizes of a small text
model. It has no weights: vLLM uses random ones with `--load-format dummy`, so it processes images but its output is
meaningless.
"""
import json
import sys

from transformers import (
    AutoTokenizer,
    CLIPImageProcessor,
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaProcessor,
)

text_model, out = sys.argv[1:]
SIDE, PATCH = 56, 14

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for part in m['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}{% else %}<image>{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

tokenizer = AutoTokenizer.from_pretrained(text_model)
tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
tokenizer.chat_template = TEMPLATE
with open(f"{text_model}/config.json", encoding="utf-8") as file:
    sizes = json.load(file)
for name in ("architectures", "model_type", "torch_dtype", "dtype"):
    sizes.pop(name, None)
sizes["vocab_size"] = len(tokenizer) + 15
vision = CLIPVisionConfig(
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=2,
    image_size=SIDE,
    patch_size=PATCH,
    projection_dim=64,
)
config = LlavaConfig(
    vision_config=vision,
    text_config=LlamaConfig(**sizes),
    image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    vision_feature_layer=-1,
    vision_feature_select_strategy="default",
    image_seq_length=(SIDE // PATCH) ** 2,
)
config.architectures = ["LlavaForConditionalGeneration"]
config.save_pretrained(out)
LlavaProcessor(
    image_processor=CLIPImageProcessor(
        size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}
    ),
    tokenizer=tokenizer,
    patch_size=PATCH,
    vision_feature_select_strategy="default",
    num_additional_image_tokens=1,
    chat_template=TEMPLATE,
).save_pretrained(out)
tokenizer.save_pretrained(out)
