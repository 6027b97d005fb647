"""google-genai for Python, generateContent. It runs the tool itself (automatic function calling)."""

from google import genai
from google.genai import types

from driver import main, shell

MODEL = "gemini-2.5-pro"
client = genai.Client()


def plain(prompt):
    return client.models.generate_content(model=MODEL, contents=prompt).text


def stream(prompt):
    chunks = client.models.generate_content_stream(model=MODEL, contents=prompt)
    return "".join(chunk.text or "" for chunk in chunks)


def tool(prompt):
    config = types.GenerateContentConfig(tools=[shell])
    return client.models.generate_content(model=MODEL, contents=prompt, config=config).text


main(plain, stream, tool)
